"""The figures: of the paper, and of what its tables average over. One palette, one style, PNG and PDF of each.

The colours are Okabe and Ito's, which people with any colour vision can tell apart; methods also differ in marker.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from deduce.artifacts import atomic
from deduce.evaluation import paper, summary
from deduce.evaluation.metrics import PAPER, THRESHOLDS
from deduce.shards import Pairs, Shard

PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
GREY = "#666666"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,  # text stays text
}
STORED = {"features": "feature_map", "reconstructions": "vae_reconstructions"}  # artefact to figure


class Pictures:
    """The images of one test set as matplotlib shows them, by image index and target."""

    def __init__(self, pairs: Pairs, shards: dict[str, Shard]) -> None:
        self.label = {int(image): int(label) for image, label in zip(pairs.image, pairs.label, strict=True)}
        self._original = {int(image): row for row, image in enumerate(pairs.image)}
        self._row = {(int(i), int(t)): row for row, (i, t) in enumerate(zip(pairs.image, pairs.target, strict=True))}
        self._pairs, self._shards = pairs, shards

    def original(self, image: int) -> np.ndarray:
        return pixels(self._pairs.original[self._original[image]])

    def made(self, method: str, image: int, target: int) -> np.ndarray | None:
        """The method's counterfactual, or None if it found none."""
        shard, row = self._shards[method], self._row[image, target]
        return pixels(shard.counterfactual[row]) if shard.found[row] else None


def draw(stem: str | Path, make: Callable[..., Figure], *arguments: Any, **options: Any) -> None:
    """`stem`.png and `stem`.pdf of a figure; the same bytes for the same data."""
    with matplotlib.rc_context(STYLE):
        figure = make(*arguments, **options)
        # No dates in the files, so that running again changes nothing.
        for suffix, metadata in ((".png", {"Software": None}), (".pdf", {"CreationDate": None, "Producer": None})):
            with atomic(Path(stem).with_suffix(suffix)) as temporary:
                figure.savefig(temporary, dpi=160, metadata=metadata)
            figure.set_layout_engine("none")  # laid out once: the second format is the same picture
        plt.close(figure)


def colours(methods: list[str]) -> dict[str, str]:
    return {method: PALETTE[position % len(PALETTE)] for position, method in enumerate(methods)}


def markers(methods: list[str]) -> dict[str, str]:
    return {method: MARKERS[position % len(MARKERS)] for position, method in enumerate(methods)}


def pixels(image: np.ndarray) -> np.ndarray:
    """(channels, height, width) as matplotlib wants it."""
    return image[0] if len(image) == 1 else np.moveaxis(image, 0, -1)


def _show(axis: Any, image: np.ndarray | None, text: str = "") -> None:
    axis.set(xticks=[], yticks=[])
    axis.grid(False)
    axis.spines[:].set_visible(image is None)
    if image is None:
        axis.text(0.5, 0.5, text, ha="center", va="center", color=GREY, transform=axis.transAxes)
        axis.spines[:].set(color="#cccccc", linestyle=":")
        axis.set_box_aspect(1)
    else:
        axis.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")


def _plain_ticks(axis: Any) -> None:
    """Ticks of a logarithmic axis that read as plain numbers, also where it spans less than a decade."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def grid(pictures: Pictures, pairs: list[tuple[int, int]], names: dict[str, str]) -> Figure:
    """Figure 3: a column per pair, the original on top and each method's counterfactual below it."""
    figure, axes = plt.subplots(
        1 + len(names), len(pairs), figsize=(1.15 * len(pairs) + 0.9, 1.15 * (1 + len(names)) + 0.3), squeeze=False
    )
    for column, (image, target) in enumerate(pairs):
        _show(axes[0, column], pictures.original(image))
        axes[0, column].set_title(f"{pictures.label[image]} → {target}")
        for line, method in enumerate(names, start=1):
            _show(axes[line, column], pictures.made(method, image, target), "not found")
    for axis, name in zip(axes[:, 0], ["original", *names.values()], strict=True):
        _name_row(axis, name)
    return figure


def examples(pictures: Pictures, pairs: list[tuple[int, int]], method: str, name: str) -> Figure:
    """Appendix C: rows of originals, each with the method's counterfactuals below."""
    columns = min(6, len(pairs))
    lines = math.ceil(len(pairs) / columns)
    figure, axes = plt.subplots(2 * lines, columns, figsize=(1.15 * columns + 0.9, 2.45 * lines), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for position, (image, target) in enumerate(pairs):
        line, column = divmod(position, columns)
        shown = (pictures.original(image), pictures.made(method, image, target))
        for axis, picture in zip(axes[2 * line : 2 * line + 2, column], shown, strict=True):
            axis.set_axis_on()
            _show(axis, picture, "not found")
        axes[2 * line, column].set_title(f"{pictures.label[image]} → {target}")
    for line in range(lines):
        _name_row(axes[2 * line, 0], "original")
        _name_row(axes[2 * line + 1, 0], name)
    return figure


def _name_row(axis: Any, name: str) -> None:
    axis.set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8)


def distributions(table: pd.DataFrame, names: dict[str, str]) -> Figure:
    """The values that table 1 averages: per method, over the pairs that every method found."""
    metrics = [metric for metric in PAPER if table[metric.name].notna().any()]
    chosen = table[summary.common(table)]
    title = f"pairs that every method found (n = {len(chosen) // max(len(names), 1)})"
    if chosen.empty:
        chosen, title = table[table["found"]], "pairs that each method found (none was found by all)"
    figure, axes = plt.subplots(1, len(metrics), figsize=(3.1 * len(metrics), 3.3), squeeze=False)
    palette = colours(list(names))
    for axis, metric in zip(axes[0], metrics, strict=True):
        for position, method in enumerate(names):
            values = chosen.loc[chosen["method"] == method, metric.name].dropna().to_numpy(float)
            if not len(values):
                continue
            # Logarithms are what the eye sees on this axis, so that the shapes are estimated there.
            shown = np.log10(np.maximum(values, 0.5))
            if len(values) > 1 and np.ptp(shown) > 0:
                body = axis.violinplot(shown, [position], widths=0.85, showextrema=False)["bodies"][0]
                body.set(facecolor=palette[method], alpha=0.55, edgecolor=palette[method])
            low, middle, high = np.percentile(shown, [25, 50, 75])
            axis.vlines(position, low, high, color="black", linewidth=3)
            axis.plot(position, middle, "o", color="white", markeredgecolor="black", markersize=5)
            mean = np.log10(max(values.mean(), 0.5))
            axis.plot(position, mean, "_", color="black", markersize=18, markeredgewidth=1.5)
        low, high = axis.get_ylim()
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low <= np.log10(tick) <= high]
        if len(ticks) > 1:
            axis.set_yticks(np.log10(ticks), [str(tick) for tick in ticks])
        else:  # all values are close together
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{10**value:.3g}"))
        crowded = len("".join(names.values())) > 24
        axis.set_xticks(range(len(names)), list(names.values()), rotation=25 if crowded else 0)
        axis.set_title(f"{metric.text} (log scale)")
        axis.grid(axis="x", visible=False)
    figure.suptitle(f"{title}; bar: quartiles, circle: median, dash: mean", fontsize=9, color=GREY)
    return figure


def success_rates(success: pd.DataFrame, names: dict[str, str]) -> Figure:
    """How often each method finds a counterfactual: all test sets with the Wilson interval, and each set."""
    figure, axis = plt.subplots(figsize=(5.2, 0.55 * len(names) + 1.1))
    palette, shapes = colours(list(names)), markers(list(names))
    for position, method in enumerate(names):
        part = success[success["method"] == method]
        overall = part[part["seed"].astype(str) == "all"].iloc[0]
        sets = part[part["seed"].astype(str) != "all"]
        rate = 100 * overall["success"]
        spread = [[max(rate - 100 * overall["wilson_low"], 0)], [max(100 * overall["wilson_high"] - rate, 0)]]
        axis.plot(100 * sets["success"], np.full(len(sets), position + 0.24), "|", color=GREY, markersize=7)
        axis.errorbar(rate, position, xerr=spread, fmt=shapes[method], color=palette[method], capsize=4, markersize=7)
        axis.annotate(f"{rate:.1f} %", (rate, position), (0, 7), textcoords="offset points", ha="center", fontsize=8)
    axis.set_yticks(range(len(names)), list(names.values()))
    axis.set_ylim(len(names) - 0.5, -0.6)
    axis.set_xlim(right=103)
    axis.set_xlabel("pairs found in % (95 % Wilson interval; ticks: test sets)")
    return figure


def thresholds(table: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Mean L0 against how much a pixel must differ to count: what exact inequality hides."""
    frame = summary.thresholded(table)
    figure, axis = plt.subplots(figsize=(5.2, 3.4))
    palette, shapes = colours(list(names)), markers(list(names))
    levels = [0.0, *THRESHOLDS]
    for method, name in names.items():
        part = frame[frame["method"] == method].set_index("threshold").loc[levels]
        axis.errorbar(
            range(len(levels)),
            part["l0"],
            part["l0_std"].fillna(0),
            marker=shapes[method],
            color=palette[method],
            capsize=3,
            label=name,
        )
    axis.set_yscale("log")
    _plain_ticks(axis.yaxis)
    axis.set_xticks(range(len(levels)), ["0 (paper)", *[f"{level:g}" for level in THRESHOLDS]])
    axis.set_xlabel("a pixel counts as changed if it differs by more than")
    axis.set_ylabel("mean L0 (log scale)")
    axis.legend(frameon=False, ncols=2)
    return figure


def targets(by_target: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Mean L1 and failures by target class: which digits are hard to reach."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 0.5 * len(names) + 1.5))
    classes = sorted(by_target["target"].unique())
    for axis, column, title, decimals in (
        (axes[0], "l1", "mean L1 of found pairs (shade: within method)", 1),
        (axes[1], "failure", "failure in %", 0),
    ):
        values = by_target.pivot(index="method", columns="target", values=column).reindex(list(names))[classes]
        # Methods differ by factors in L1: the shade compares targets within a method, the number says how much.
        largest = values.max(axis=1).replace(0, 1) if column == "l1" else pd.Series(100.0, values.index)
        shade = values.div(largest, axis=0).to_numpy(float)
        axis.imshow(shade, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
        for (line, place), share in np.ndenumerate(shade):
            text = "–" if np.isnan(share) else f"{values.iloc[line, place]:.{decimals}f}"
            axis.text(
                place, line, text, ha="center", va="center", fontsize=7.5, color="white" if share > 0.85 else "black"
            )
        axis.set_xticks(range(len(classes)), [str(c) for c in classes])
        axis.set_yticks(range(len(names)), list(names.values()))
        axis.set(title=title, xlabel="target class")
        axis.grid(False)
        axis.spines[:].set_visible(False)
    return figure


def beside_paper(frame: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Table 1 of this run and of the paper, with the standard deviations over the test sets."""
    metrics = [m for m in ("agan", "l0", "l1", "failure") if frame.loc[frame["metric"] == m, "run"].notna().any()]
    shown = [method for method in names if method in set(frame["method"])]
    figure, axes = plt.subplots(1, max(len(metrics), 1), figsize=(2.6 * max(len(metrics), 1), 3.0), squeeze=False)
    palette = colours(list(names))
    headings = {"agan": "AGAN", "l0": "L0 (log scale)", "l1": "L1 (log scale)", "failure": "failure in %"}
    for axis, metric in zip(axes[0], metrics, strict=False):
        part = frame[frame["metric"] == metric].set_index("method").loc[shown]
        for position, (method, row) in enumerate(part.iterrows()):
            colour = palette[str(method)]
            axis.errorbar(
                position - 0.13,
                row["run"],
                row["run_std"] if row["run_std"] > 0 else None,
                fmt="o",
                color=colour,
                capsize=3,
            )
            axis.errorbar(
                position + 0.13,
                row["paper"],
                row["paper_std"] or None,
                fmt="o",
                color=colour,
                capsize=3,
                markerfacecolor="white",
            )
        if metric in ("l0", "l1"):
            axis.set_yscale("log")
            _plain_ticks(axis.yaxis)
        axis.set_title(headings[metric])
        axis.set_xticks(range(len(shown)), [names[method] for method in shown], rotation=30)
        axis.set_xlim(-0.5, len(shown) - 0.5)
        axis.grid(axis="x", visible=False)
    figure.suptitle(
        "filled: this run; hollow: the paper; bars: standard deviation over the test sets", fontsize=9, color=GREY
    )
    return figure


def times(timing: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Table 2's run times: every timed pair, the mean, and the paper's mean where it has one."""
    shown = [method for method in names if method in set(timing["method"])]
    figure, axis = plt.subplots(figsize=(5.2, 0.6 * len(shown) + 1.2))
    palette, shapes = colours(list(names)), markers(list(names))
    for position, method in enumerate(shown):
        seconds = timing.loc[timing["method"] == method, "seconds"].to_numpy(float)
        spread = np.linspace(-0.18, 0.18, len(seconds)) if len(seconds) > 1 else np.zeros(1)
        axis.plot(seconds, position + spread, ".", color=palette[method], alpha=0.5, markersize=4)
        axis.plot(
            seconds.mean(), position, shapes[method], color=palette[method], markeredgecolor="black", markersize=8
        )
        if method in paper.TABLE2:
            axis.plot(paper.TABLE2[method][0], position, "|", color="black", markersize=14)
    axis.set_xscale("log")
    _plain_ticks(axis.xaxis)
    axis.set_yticks(range(len(shown)), [names[method] for method in shown])
    axis.set_ylim(len(shown) - 0.5, -0.5)
    axis.set_xlabel("seconds for one counterfactual (log scale; bar: the paper's mean)")
    return figure


def reconstructions(stored: dict[str, np.ndarray]) -> Figure:
    """Appendix B: originals, some sampled reconstructions (if there are any), and the mean of many."""
    lines = [("original", stored["original"])]
    lines += [(f"sample {number}", images) for number, images in enumerate(stored.get("samples", []), start=1)]
    lines.append(("mean", stored["mean"]))
    count = len(stored["original"])
    figure, axes = plt.subplots(len(lines), count, figsize=(0.95 * count + 0.8, 0.95 * len(lines)), squeeze=False)
    for line, (name, images) in zip(axes, lines, strict=True):
        for axis, image in zip(line, images, strict=True):
            _show(axis, pixels(image))
        _name_row(line[0], name)
    return figure


def feature_map(stored: dict[str, np.ndarray]) -> Figure:
    """Figure 2 from real features: two classes in the plane that separates them best, their Gaussians, the decision
    boundary between them, and the way of one counterfactual across it.

    `stored`: points (n, 2), point_class (n,), means (k, 2), covariances (k, 2, 2), classes (k,), path (steps + 1, 2),
    and boundary (3,), the line a x + b y + c = 0 of equal logits in this plane.
    """
    figure, axis = plt.subplots(figsize=(5.6, 4.4))
    for position, label in enumerate(stored["classes"]):
        colour = PALETTE[position]
        own = stored["points"][stored["point_class"] == label]
        axis.plot(*own.T, ".", color=colour, alpha=0.35, markersize=4, label=f"class {label}")
        values, vectors = np.linalg.eigh(stored["covariances"][position])
        angle = math.degrees(math.atan2(vectors[1, 1], vectors[0, 1]))
        for deviations in (1, 2):
            width, height = 2 * deviations * np.sqrt(values[::-1])
            axis.add_patch(
                Ellipse(stored["means"][position], width, height, angle=angle, fill=False, color=colour, linewidth=1.4)
            )
    path = stored["path"]
    axis.plot(*path.T, "-", color="black", linewidth=1.2, label="path of the search")
    axis.plot(*path[0], "o", color="white", markeredgecolor="black", markersize=7, label="original")
    axis.plot(*path[-1], "*", color="black", markersize=12, label="counterfactual")
    limits = axis.get_xlim(), axis.get_ylim()
    a, b, c = stored["boundary"]
    ends = np.array(limits[0]) if abs(b) > abs(a) else np.array(limits[1])
    other = -(a * ends + c) / b if abs(b) > abs(a) else -(b * ends + c) / a
    line = (ends, other) if abs(b) > abs(a) else (other, ends)
    axis.plot(*line, "--", color=GREY, linewidth=1.2, label="decision boundary")
    axis.set(xlim=limits[0], ylim=limits[1], xlabel="first direction in feature space", ylabel="second direction")
    axis.legend(frameon=False, fontsize=8)
    return figure
