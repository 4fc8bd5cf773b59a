"""The builders of a run's figures, in one palette and one style; deduce/evaluation/catalogue.py lists them.

The colours are Okabe and Ito's, which people with any colour vision can tell apart; methods also differ in marker.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, cycle
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from deduce.artifacts import atomic
from deduce.evaluation import intervals, oracles, paper, summary, tables
from deduce.evaluation.metrics import METRICS, THRESHOLDS
from deduce.evaluation.run import Run
from deduce.models import ORACLES
from deduce.variants import base

PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
GREY = "#666666"
STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": "#dddddd", "grid.linewidth": 0.6,
    "figure.constrained_layout.use": True, "pdf.fonttype": 42,  # TrueType: text in a PDF can be selected
}  # fmt: skip


def draw(stem: Any, data: Mapping[str, Any], build: Callable[..., Figure], *arguments: Any) -> None:
    """`stem`.png and .pdf of the figure that `build` returns, the same bytes for the same data; and `data` as .json."""
    with matplotlib.rc_context(STYLE):
        figure = build(*arguments)
        # Without dates, running again gives the same files.
        for suffix, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None})):
            with atomic(f"{stem}.{suffix}") as temporary:
                figure.savefig(temporary, dpi=160, metadata=metadata)
            figure.set_layout_engine("none")  # keep the layout of the first format
        plt.close(figure)
    tables.write_json(f"{stem}.json", data)


def styled(names: Iterable[str]) -> list[tuple[int, str, str, str]]:
    """Each method's position, name in the config, colour and marker."""
    return list(zip(count(), names, cycle(PALETTE), cycle(MARKERS)))


def interval(mean: float, low: float, high: float) -> list[list[float]]:
    """The lengths of an error bar that reaches from `low` to `high`."""
    return [[max(mean - low, 0)], [max(high - mean, 0)]]


def method_rows(axis: Any, names: Sequence[str], top: float = -0.5) -> None:
    """One row per name along the y axis, the first on top."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, top)


def _image_rows(
    rows: Sequence[tuple[str, Sequence[np.ndarray | None]]], titles: Mapping[int, list[str]], side: float
) -> Figure:
    """Rows of images (channels, height, width) in [0, 1] beside their names; None is an image that was not found.

    titles: by the number of a row, what stands above its images. side: of an image, in inches.
    """
    _, height, width = next(image for _, images in rows for image in images if image is not None).shape
    gap, line = height // 12 + 1, height // 4  # in pixels: between images, and for a row's titles
    tops = np.cumsum([gap + line * (row in titles) + height * (row > 0) for row in range(len(rows))])
    lefts = (width + gap) * np.arange(max(len(images) for _, images in rows))
    canvas = np.ones((tops[-1] + height, lefts[-1] + width, 3))  # one picture of all images: an axis for each is slow
    names = [name for name, _ in rows]
    beside = 0.2 + 0.08 * max(map(len, names))  # inches for the names
    figure, axis = plt.subplots(figsize=(side * canvas.shape[1] / width + beside, side * canvas.shape[0] / height))
    axis.set_anchor("E")  # the names have the left margin
    for row, (_, images) in enumerate(rows):
        for left, title in zip(lefts, titles.get(row, []), strict=False):
            axis.text(left + width / 2, tops[row] - line / 2, title, ha="center", va="center")
        for left, image in zip(lefts, images, strict=False):
            if image is not None:
                canvas[tops[row] : tops[row] + height, left : left + width] = np.moveaxis(image, 0, -1).clip(0, 1)
            else:
                axis.text(left + width / 2, tops[row] + height / 2, "not found", ha="center", va="center", color=GREY)
                axis.add_patch(Rectangle((left, tops[row]), width - 1, height - 1, fill=False, ec="#cccccc", ls=":"))
    axis.imshow(canvas, interpolation="nearest")
    axis.set_yticks(tops + height / 2, names)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.grid(False)
    axis.spines[:].set_visible(False)
    return figure


def plain_ticks(axis: Any) -> None:
    """Ticks of a logarithmic axis as plain numbers, also where the axis spans less than a decade."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _examples(run: Run, preferred: list[tuple[int, int]], methods: Iterable[str]) -> tuple[list[str], list]:
    """Pairs of the first test set as titles, and named rows of images: originals and each method's counterfactuals."""
    pairs = run.pairs(run.first_seed)
    place = {pair: row for row, pair in enumerate(zip(pairs.image.tolist(), pairs.target.tolist(), strict=True))}
    rows = [place[pair] for pair in tables.choose_pairs(run.first_training, preferred)]
    images: list[tuple[str, list]] = [("original", list(pairs.original[rows]))]
    for method in methods:
        shard = run.shard(method, run.first_seed)
        images.append((run.names[method], [shard.counterfactual[row] if shard.found[row] else None for row in rows]))
    return [f"{pairs.label[row]} → {pairs.target[row]}" for row in rows], images


def grid(run: Run) -> Figure:
    """Figure 3: a column per pair, the original on top and each method's counterfactual below it."""
    titles, images = _examples(run, paper.TABLE3_PAIRS, run.names)
    return _image_rows(images, {0: titles}, 1.1)


def examples(run: Run, method: str) -> Figure:
    """Appendix C: rows of originals, each with the method's counterfactuals below."""
    titles, images = _examples(run, paper.ADDITIONAL_PAIRS, [method])
    columns = min(6, len(titles))
    starts = range(0, len(titles), columns)
    rows = [(name, row[start : start + columns]) for start in starts for name, row in images]
    above = {2 * line: titles[start : start + columns] for line, start in enumerate(starts)}
    return _image_rows(rows, above, 1.1)


def vae_reconstructions(run: Run) -> Figure:
    """Appendix B: originals, sampled reconstructions if they were stored, and the mean of many."""
    stored = run.reconstructions
    samples = [(f"sample {number}", images) for number, images in enumerate(stored.get("samples", []), start=1)]
    rows = [("original", stored["original"]), *samples, ("mean", stored["mean"])]
    return _image_rows(rows, {}, 0.9)


def success_rates(run: Run) -> Figure:
    """How often each method finds a counterfactual: over all test sets, with its interval, and in each set."""
    percentages = summary.success(run.results).set_index("method")[["success", "low", "high"]] * 100
    figure, axis = plt.subplots(figsize=(5.2, 0.55 * len(run.names) + 1.1))
    for position, method, colour, marker in styled(run.names):
        *sets, (rate, low, high) = percentages.loc[method].to_numpy()  # the row of all test sets comes last
        axis.plot([row[0] for row in sets], np.full(len(sets), position + 0.24), "|", color=GREY, markersize=7)
        bars = interval(rate, low, high)
        axis.errorbar(rate, position, xerr=bars, fmt=marker, color=colour, capsize=4, markersize=7)
        axis.annotate(f"{rate:.1f} %", (rate, position), (0, 7), textcoords="offset points", ha="center", fontsize=8)
    method_rows(axis, list(run.names.values()), top=-0.6)
    axis.set(xlim=(None, 103), xlabel="pairs found in % (95 % interval; ticks: test sets)")
    return figure


def thresholds(run: Run) -> Figure:
    """Mean L0 against the difference that a pixel needs to count as changed. The paper counts any difference."""
    frame = summary.thresholded(run.results)
    figure, axis = plt.subplots(figsize=(5.2, 3.4))
    for _, method, colour, marker in styled(run.names):
        part = frame[frame["method"] == method]  # from the lowest threshold on
        look: dict[str, Any] = {"marker": marker, "color": colour, "capsize": 3, "label": run.names[method]}
        axis.errorbar(range(len(part)), part["l0"], part["l0_std"].fillna(0), **look)
    axis.set(xlabel="a pixel counts as changed if it differs by more than", ylabel="mean L0 (log scale)", yscale="log")
    plain_ticks(axis.yaxis)
    axis.set_xticks(range(1 + len(THRESHOLDS)), ["0 (paper)", *[f"{level:g}" for level in THRESHOLDS]])
    axis.legend(frameon=False, ncols=2)
    return figure


def targets(run: Run) -> Figure:
    """Mean L1 and failures by target class: which classes are hard to reach."""
    by_target, names = run.by_target, run.names
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 0.5 * len(names) + 1.5))
    classes = sorted(by_target["target"].unique())
    for axis, column, title, decimals in (
        (axes[0], "l1", "mean L1 of found pairs (shade: within method)", 1),
        (axes[1], "failure", "failure in %", 0),
    ):
        values = by_target.pivot(index="method", columns="target", values=column).reindex(list(names))[classes]
        # Methods differ by factors in L1, so the shade compares targets within a method; the numbers compare methods.
        largest = values.max(axis=1).replace(0, 1) if column == "l1" else pd.Series(100.0, values.index)
        shade = values.div(largest, axis=0).to_numpy(float)
        axis.imshow(shade, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
        for (line, place), share in np.ndenumerate(shade):
            text = "–" if np.isnan(share) else f"{values.iloc[line, place]:.{decimals}f}"
            colour = "white" if share > 0.85 else "black"
            axis.text(place, line, text, ha="center", va="center", fontsize=7.5, color=colour)
        axis.set_xticks(range(len(classes)), [str(c) for c in classes])
        axis.set_yticks(range(len(names)), list(names.values()))
        axis.set(title=title, xlabel="target class")
        axis.grid(False)
        axis.spines[:].set_visible(False)
    return figure


def beside_paper(run: Run) -> Figure:
    """Table 1 of this run and of the paper, with the standard deviations over the test sets."""
    frame = tables.beside_paper(run.table1, paper.TABLE1).set_index(["metric", "method"])
    metrics = [m for m in ("agan", "l0", "l1", "failure") if m in frame.index and frame.loc[m, "run"].notna().any()]
    styles = [style for style in styled(run.names) if style[1] in paper.TABLE1]
    figure, axes = plt.subplots(1, len(metrics), figsize=(2.6 * len(metrics), 3.0), squeeze=False)
    for axis, metric in zip(axes[0], metrics, strict=True):
        for position, (_, method, colour, _) in enumerate(styles):
            row = frame.loc[metric, method]
            look = {"fmt": "o", "color": colour, "capsize": 3}
            axis.errorbar(position - 0.13, row["run"], row["run_std"] if row["run_std"] > 0 else None, **look)
            axis.errorbar(position + 0.13, row["paper"], row["paper_std"] or None, markerfacecolor="white", **look)
        if logarithmic := metric in ("l0", "l1"):
            axis.set_yscale("log")
            plain_ticks(axis.yaxis)
        axis.set_title(METRICS[metric].text + (" (log scale)" if logarithmic else ""))
        axis.set_xticks(range(len(styles)), [run.names[style[1]] for style in styles], rotation=30)
        axis.set_xlim(-0.5, len(styles) - 0.5)
        axis.grid(axis="x", visible=False)
    title = "filled: this run; hollow: the paper; bars: standard deviation over the test sets"
    figure.suptitle(title, fontsize=9, color=GREY)
    return figure


def points(run: Run, metric: str) -> Figure:
    """The values behind table 1's means: every point, each test set's mean, the mean and its interval."""
    measured, names = run.results[run.results[metric].notna()], run.names
    chosen, which = measured[summary.common(run.results)[measured.index]], "found by every method"
    if chosen.empty:
        chosen, which = measured[measured["found"]], "found by the method (none by all)"
    figure, axis = plt.subplots(figsize=(8.2, 0.72 * len(names) + 1.1))
    random = np.random.default_rng(0)  # spreads points across their method's line; their values stay
    for position, method, colour, marker in styled(names):
        part = chosen[chosen["method"] == method]
        if part.empty:
            continue
        values = part[metric].to_numpy(float)
        across = position + random.uniform(-0.3, 0.3, len(values))
        size, alpha = (3, 0.2) if len(values) > 500 else (5, 0.45)
        axis.plot(values, across, ".", color=colour, alpha=alpha, markersize=size, rasterized=True)
        means = part.groupby(["training_seed", "seed"])[metric].mean()
        axis.plot(means, np.full(len(means), position), "|", color="black", markersize=13, markeredgewidth=1.2)
        mean, ends = values.mean(), intervals.mean(part[metric], part).interval()
        ends = (mean, mean) if np.isnan(ends).any() else ends
        axis.errorbar(mean, position, xerr=interval(mean, *ends), fmt=marker, color=colour, capsize=5, zorder=5,
                      markersize=8, markeredgecolor="black", ecolor="black")  # fmt: skip
    _readable_scale(axis, chosen[metric])
    method_rows(axis, list(names.values()))
    axis.grid(axis="y", visible=False)
    axis.set_xlabel(f"{METRICS[metric].text} of the {len(chosen[summary.PAIR].drop_duplicates())} pairs {which}")
    return figure


def _readable_scale(axis: Any, values: pd.Series) -> None:
    """Where values differ by factors: logarithmic from 1 on, and linear below, as a counterfactual may have 0."""
    low, middle, high = values.quantile([0.05, 0.5, 1]).to_numpy(float)
    if high > 10 * middle or middle > 5 * max(low, 0.1):
        axis.set_xscale("symlog", linthresh=1, linscale=0.3)
        ticks = [0] + [factor * 10**power for power in range(4) for factor in (1, 2, 5)]
        axis.set_xticks([tick for tick in ticks if tick <= 1.3 * values.max()])
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xlim(left=0 if values.min() < 1 else 0.8 * values.min())


def times(run: Run) -> Figure:
    """Table 2's run times: every timed pair, the mean, and the paper's mean where it has one."""
    seconds = {method: part["seconds"].to_numpy(float) for method, part in run.timing.groupby("method")}
    styles = [style for style in styled(run.names) if style[1] in seconds]
    printed = paper.TABLE2 if run.dataset.paper else {}
    figure, axis = plt.subplots(figsize=(5.2, 0.6 * len(styles) + 1.2))
    for position, (_, method, colour, marker) in enumerate(styles):
        values = seconds[method]
        spread = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
        axis.plot(values, position + spread, ".", color=colour, alpha=0.5, markersize=4)
        axis.plot(values.mean(), position, marker, color=colour, mec="black", markersize=8)
        if method in printed:
            axis.plot(printed[method][0], position, "|", color="black", markersize=14)
    scale = "log scale; bar: the paper's mean" if printed else "log scale"
    axis.set(xscale="log", xlabel=f"seconds for one counterfactual ({scale})")
    plain_ticks(axis.xaxis)
    method_rows(axis, [run.names[style[1]] for style in styles])
    return figure


def feature_map(run: Run) -> Figure:
    """Figure 2 from real features: two classes in the plane that separates them best, their Gaussians, the decision
    boundary between them, and the path of one search across it.

    From points (n, 2), point_class (n,), means (k, 2), covariances (k, 2, 2), classes (k,), path (steps + 1, 2), and
    boundary (3,), the line a x + b y + c = 0 of equal logits in this plane.
    """
    stored = run.features
    figure, axis = plt.subplots(figsize=(5.6, 4.4))
    for position, label in enumerate(stored["classes"]):
        colour = PALETTE[position]
        members = stored["points"][stored["point_class"] == label]
        axis.plot(*members.T, ".", color=colour, alpha=0.35, markersize=4, label=f"class {label}")
        values, vectors = np.linalg.eigh(stored["covariances"][position])
        angle = math.degrees(math.atan2(vectors[1, 1], vectors[0, 1]))
        for deviations in (1, 2):
            width, height = 2 * deviations * np.sqrt(values[::-1])
            centre = stored["means"][position]
            axis.add_patch(Ellipse(centre, width, height, angle=angle, fill=False, color=colour, linewidth=1.4))
    path = stored["path"]
    axis.plot(*path.T, "-", color="black", linewidth=1.2, label="path of the search")
    axis.plot(*path[0], "o", color="white", markeredgecolor="black", markersize=7, label="original")
    axis.plot(*path[-1], "*", color="black", markersize=12, label="counterfactual")
    x, y = np.array(axis.get_xlim()), np.array(axis.get_ylim())
    a, b, c = stored["boundary"]
    line = (x, -(a * x + c) / b) if abs(b) > abs(a) else (-(b * y + c) / a, y)
    axis.plot(*line, "--", color=GREY, linewidth=1.2, label="decision boundary")
    axis.set(xlim=x, ylim=y, xlabel="first direction in feature space", ylabel="second direction")
    axis.legend(frameon=False, fontsize=8)
    return figure


def training(run: Run) -> Figure:
    """One row per model that was trained in epochs, one panel per recorded quantity; a line for each training."""
    records: dict[str, list[pd.DataFrame]] = {}
    for model, record in run.records.items():
        if "epoch" in record:
            records.setdefault(base(model), []).append(record)
    panels: dict[str, dict[str, list[str]]] = {model: {} for model in records}
    for model, trainings in records.items():
        for name in trainings[0].columns.drop(["epoch", "seconds"], errors="ignore"):
            panels[model].setdefault(name.removeprefix("validation_"), []).append(name)
    rows, columns = max(len(panels), 1), max(map(len, panels.values()), default=1)
    figure = plt.figure(figsize=(3 * columns, 2.1 * rows))
    for line, (model, quantities) in enumerate(panels.items()):
        for column, (quantity, names) in enumerate(quantities.items(), start=1):
            axis = figure.add_subplot(rows, columns, line * columns + column)
            for name, colour in zip(names, PALETTE, strict=False):
                label = "validation" if name.startswith("validation_") else "training"
                for number, record in enumerate(records[model]):
                    look = {"label": label} if number == 0 else {"alpha": 0.4}
                    axis.plot(record["epoch"], record[name], marker=".", color=colour, **look)
            axis.set_xlim(0.5, records[model][0]["epoch"].max() + 0.5)
            axis.set_title(f"{model}: {quantity.replace('_', ' ')}", fontsize=9)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            axis.tick_params(labelsize=8)
            if len(names) > 1:
                axis.legend(fontsize=7)
            if column == 1:
                axis.set_xlabel("epoch", fontsize=8)
    return figure


def wgan_samples(run: Run) -> Figure:
    """Samples of the WGAN's generator, as many in a row as there are reconstructions."""
    samples, columns = run.pictures["samples"], len(run.pictures["originals"])
    return _image_rows([("", samples[start : start + columns]) for start in range(0, len(samples), columns)], {}, 0.5)


def reconstructions(run: Run) -> Figure:
    """Test images, and below each its reconstructions."""
    rows = {"original": "originals", "VAE": "vae", "autoencoder": "autoencoder"}
    return _image_rows([(label, run.pictures[name]) for label, name in rows.items()], {}, 0.5)


def oracle_rates(run: Run) -> Figure:
    """The oracles' rate of each method, with its interval for other images and oracles, and the rate of each oracle."""
    frame = oracles.rates(run.results).set_index(["method", "oracle"])
    figure, axis = plt.subplots(figsize=(6.2, 0.55 * len(run.names) + 1.1))
    for position, method, colour, marker in styled(run.names):
        if (method, "all") in frame.index:
            rate, low, high = 100 * frame.loc[(method, "all"), ["rate", "low", "high"]].to_numpy(float)
            single = [100 * float(frame.loc[(method, name), "rate"]) for name in ORACLES]
            axis.plot(single, np.full(len(single), position + 0.24), "|", color=GREY, markersize=7)
            look: dict[str, Any] = {"fmt": marker, "color": colour, "capsize": 4, "markersize": 7}
            axis.errorbar(rate, position, xerr=interval(rate, low, high), **look)
            axis.annotate(
                f"{rate:.1f} %", (rate, position), (0, 7), textcoords="offset points", ha="center", fontsize=8
            )
    method_rows(axis, list(run.names.values()), top=-0.6)
    axis.set(xlim=(-2, 102), xlabel="target seen by the oracles, in % of the pairs that the method found")
    return figure
