"""The evaluation of the studies of networks: one classifier for all, and how the results depend on the network."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from deduce.evaluation import intervals, paper, results, statistics, summary
from deduce.evaluation.figures import GREY, interval, method_rows, plain_ticks, styled
from deduce.evaluation.intervals import Estimate
from deduce.evaluation.metrics import FAILURE, METRICS
from deduce.evaluation.tables import MISSING, Cell, Column, Table, frame_table, number_cell
from deduce.shards import Pairs, Shard
from deduce.studies import Study

DISTANCES = [METRICS["l0"], METRICS["l1"]]
MEASURES = [*DISTANCES, FAILURE]
DIFFERENCE_HEADINGS = {
    "comparison": "comparison", "on": "of", "a": "a", "b": "b", "metric": "metric", "trainings": "trainings",
    "pairs": "pairs", "mean_a": "mean of a", "mean_b": "mean of b", "difference": "a − b", "low": "95 % from",
    "high": "to", "p_holm": "p",
}  # fmt: skip


def long_form(study: Study, pairs: Mapping[str, Pairs], shards: Mapping[tuple[str, str], Shard]) -> pd.DataFrame:
    """One row per case, test set, image and target, as in the results table; `failure` is in %, `case` a number."""
    parts = []
    for number, case in enumerate(study.cases):
        own = {key: value for key, value in case.settings.items() if "." not in key}
        for seed in study.on:
            shard, where = shards[case.variant, seed], f"{case.variant}/{seed}"
            results.check_settings({where: shard}, own)  # shards do not record the settings of models
            rows = results.rows(case.method, int(seed), pairs[seed], shard, None, where, case.training_seed)
            parts.append(rows.assign(case=number, failure=100.0 * ~rows["found"]))
    return pd.concat(parts, ignore_index=True)


def estimates(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Each measure over these rows: distances over the pairs that were found, failures over all."""
    found = rows[rows["found"]]
    return {
        metric.name: intervals.mean(part[metric.name].astype(float), part)
        for metric, part in ((metric, rows if metric is FAILURE else found) for metric in MEASURES)
    }


def columns_of(rows: pd.DataFrame) -> dict[str, Any]:
    """Trainings, pairs, and mean, interval and standard deviation over trainings of each measure."""
    columns: dict[str, Any] = {"trainings": rows["training_seed"].nunique(), "pairs": len(rows)}
    for name, estimate in estimates(rows).items():
        low, high = estimate.interval_of(METRICS[name])
        part = rows if name == FAILURE.name else rows[rows["found"]]
        spread = part.groupby("training_seed")[name].mean().std(ddof=1)
        columns |= {name: estimate.value, f"{name}_low": low, f"{name}_high": high, f"{name}_training_std": spread}
    return columns


def _interval_cell(line: Mapping[str, Any], name: str) -> Cell:
    value, low, high = (line[column] for column in (name, f"{name}_low", f"{name}_high"))
    decimals = 1 if name == FAILURE.name else 2
    cell = number_cell(value, decimals)
    if cell.text == MISSING or pd.isna(low):
        return cell
    return Cell(cell.text, suffix=f" [{low:.{decimals}f}, {high:.{decimals}f}]", value=cell.value)


def names_of(rows: pd.DataFrame) -> dict[str, str]:
    return dict(rows[["method", "display_name"]].drop_duplicates().itertuples(index=False))


# --- one classifier for all ------------------------------------------------------------------------------------------
def same_classifier(study: Study, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The means, a row per method and classifier, and the paired differences: of algorithms, and of networks."""
    rows = rows.assign(classifier=rows["case"].map(lambda number: study.cases[number].settings["classifier"]))
    cells = {key: part for key, part in rows.groupby(["method", "classifier"], sort=False)}
    frame = pd.DataFrame(
        {"method": method, "classifier": classifier} | columns_of(part) for (method, classifier), part in cells.items()
    )
    methods, (first, second) = dict.fromkeys(frame["method"]), dict.fromkeys(frame["classifier"])
    lines: list[dict[str, Any]] = []
    for classifier in (first, second):
        for a, b in combinations(methods, 2):
            keys = {"comparison": "algorithms", "on": classifier, "a": a, "b": b}
            lines += [keys | line for line in _differences(cells[a, classifier], cells[b, classifier])]
    for method in methods:
        keys = {"comparison": "networks", "on": method, "a": first, "b": second}
        lines += [keys | line for line in _differences(cells[method, first], cells[method, second])]
    differences = pd.DataFrame(lines)
    families = differences.groupby(["comparison", "on", "metric"], sort=False)["p"]
    return frame, differences.assign(p_holm=families.transform(lambda p: statistics.holm(p.to_numpy())))


def _differences(a: pd.DataFrame, b: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Each measure of a minus that of b, paired: distances on the pairs that both found, failures on all."""
    pairs = a.merge(b, on=summary.PAIR, suffixes=("_a", "_b"))
    both = pairs[pairs["found_a"] & pairs["found_b"]]
    for metric in MEASURES:
        part = pairs if metric is FAILURE else both
        of_a, of_b = (part[f"{metric.name}_{side}"].astype(float) for side in "ab")
        estimate = intervals.mean(of_a - of_b, part)
        low, high = estimate.interval()
        yield {
            "metric": metric.name, "trainings": part["training_seed"].nunique(), "pairs": len(part),
            "mean_a": of_a.mean(), "mean_b": of_b.mean(), "difference": of_a.mean() - of_b.mean(),
            "low": low, "high": high, "p": estimate.p(),
        }  # fmt: skip


def same_classifier_tables(
    frame: pd.DataFrame, differences: pd.DataFrame, names: Mapping[str, str]
) -> tuple[Table, Table, Table]:
    """The means, all differences, and the differences that the page shows: of the first method, and of the networks."""
    columns = [Column(text, numeric=False) for text in ("algorithm", "network")]
    columns += [Column("trainings"), *(Column(metric.text, metric.latex) for metric in MEASURES)]
    rows = [
        [Cell(names[line["method"]]), Cell(line["classifier"]), number_cell(line["trainings"], 0)]
        + [_interval_cell(line, metric.name) for metric in MEASURES]
        for line in frame.to_dict("records")
    ]
    caption = (
        "Every algorithm on each network: means over the pairs that it found there, failures of all pairs, with the "
        "95 % interval for other trainings and other images in brackets."
    )
    means = Table(caption, columns, rows, notes=_in_words(differences, names))
    caption = (
        "Paired differences on the pairs that both found, failures on all: of two algorithms on the same network, and "
        "of the two networks under the same algorithm. p is adjusted by Holm over the algorithms on a network."
    )
    of_subject = (differences["comparison"] == "networks") | (differences["a"] == frame["method"].iloc[0])
    texts = {metric.name: metric.text for metric in MEASURES} | dict(names)
    every, page = (
        frame_table(part, caption, DIFFERENCE_HEADINGS, texts, p=["p_holm"])
        for part in (differences, differences[of_subject])
    )
    return means, every, page


def _in_words(differences: pd.DataFrame, names: Mapping[str, str]) -> list[str]:
    """How much of the first method's lead over the second is the algorithm's, and how much is the network's."""
    subject = differences["a"].iloc[0]
    other = differences["b"].iloc[0]
    notes = []
    for metric in DISTANCES:
        of_metric = differences[differences["metric"] == metric.name]
        algorithms = of_metric[(of_metric["a"] == subject) & (of_metric["b"] == other)]
        networks = of_metric[(of_metric["comparison"] == "networks") & of_metric["on"].isin([subject, other])]
        texts = [f"on {line.on} {_with_interval(line)}" for line in algorithms.itertuples()]
        texts += [
            f"{line.a} − {line.b} under {names[line.on]} {_with_interval(line)}" for line in networks.itertuples()
        ]
        notes.append(f"{metric.text}, {names[subject]} − {names[other]}: {'; '.join(texts)}.")
    if (differences["trainings"] < 2).any():
        notes.append(
            "There is one training of each network: the intervals hold for other images, not for other networks."
        )
    return notes


def _with_interval(line: Any) -> str:
    return f"{line.difference:+.2f} [{line.low:+.2f}, {line.high:+.2f}]"


def same_classifier_figure(frame: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """A panel per measure and a row per method, with a marker for each network."""
    figure, axes = plt.subplots(1, len(MEASURES), figsize=(9.0, 0.5 * len(names) + 1.4), sharey=True, squeeze=False)
    classifiers = styled(dict.fromkeys(frame["classifier"]))
    for axis, metric in zip(axes[0], MEASURES, strict=True):
        for place, method in enumerate(dict.fromkeys(frame["method"])):
            for number, classifier, colour, marker in classifiers:
                line = frame[(frame["method"] == method) & (frame["classifier"] == classifier)].iloc[0]
                mean, low, high = (
                    line[column] for column in (metric.name, f"{metric.name}_low", f"{metric.name}_high")
                )
                bars = None if pd.isna([mean, low, high]).any() else interval(mean, low, high)
                look: dict[str, Any] = {"fmt": marker, "color": colour, "capsize": 3, "markersize": 5}
                label = classifier if place == 0 else None
                axis.errorbar(mean, place + 0.24 * (number - 0.5), xerr=bars, label=label, **look)
        if metric is not FAILURE:
            axis.set_xscale("log")
            plain_ticks(axis.xaxis)
        axis.set_title(metric.text + ("" if metric is FAILURE else " (log scale)"))
        axis.grid(axis="y", visible=False)
    method_rows(axes[0, 0], [names[method] for method in dict.fromkeys(frame["method"])])
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


# --- dependence ------------------------------------------------------------------------------------------------------
def dependence(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """A row per curve, method and value of the varied setting."""
    lines = []
    keys = [(case.curve, case.method, *next(iter(case.settings.items()))) for case in study.cases]
    for key in sorted(
        dict.fromkeys(keys), key=lambda key: ([case.curve for case in study.cases].index(key[0]), *key[1:])
    ):
        part = rows[rows["case"].isin([number for number, other in enumerate(keys) if other == key])]
        lines.append(dict(zip(("curve", "method", "setting", "value"), key, strict=True)) | columns_of(part))
    return pd.DataFrame(lines)


def dependence_table(frame: pd.DataFrame, names: Mapping[str, str], of_paper: bool) -> Table:
    columns = [Column(text, numeric=False) for text in ("curve", "algorithm", "setting")]
    columns += [Column("value"), Column("trainings"), *(Column(metric.text, metric.latex) for metric in MEASURES)]
    rows = [
        [Cell(line["curve"]), Cell(names[line["method"]]), Cell(line["setting"])]
        + [Cell(f"{line['value']:g}", value=line["value"]), number_cell(line["trainings"], 0)]
        + [_interval_cell(line, metric.name) for metric in MEASURES]
        for line in frame.to_dict("records")
    ]
    caption = (
        "How algorithms depend on the network that they explain: means over the pairs that they found, failures of all "
        "pairs, with the 95 % interval for other trainings and other images in brackets."
    )
    notes = _reached(frame, names) if of_paper else []
    if (frame["trainings"] < 2).any():
        notes.append("Where there is one training, the interval holds for other images, not for other networks.")
    return Table(caption, columns, rows, notes=notes)


def _reached(frame: pd.DataFrame, names: Mapping[str, str]) -> list[str]:
    """For each of the paper's numbers, the points whose interval includes it."""
    notes = []
    for method in dict.fromkeys(frame["method"]):
        for metric in MEASURES if method in paper.TABLE1 else []:
            printed = paper.TABLE1[method][metric.name][0]
            inside = frame[(frame["method"] == method) & frame[f"{metric.name}_low"].le(printed)]
            inside = inside[inside[f"{metric.name}_high"].ge(printed)]
            points = dict.fromkeys(f"{line.setting} = {line.value:g}" for line in inside.itertuples())
            where = f"is in the interval at {', '.join(points)}" if points else "is in no interval"
            notes.append(f"The paper's {metric.text} of {names[method]}, {printed:.2f}, {where}.")
    return notes


def dependence_figure(
    study: Study, frame: pd.DataFrame, rows: pd.DataFrame, names: Mapping[str, str], of_paper: bool
) -> Figure:
    """A row of panels per curve, a column per measure: means with intervals, a dot per training, the paper as lines."""
    curves, methods = list(dict.fromkeys(frame["curve"])), styled(dict.fromkeys(frame["method"]))
    size = (9.0, 2.3 * len(curves) + 0.6)
    figure, axes = plt.subplots(len(curves), len(MEASURES), figsize=size, squeeze=False)
    values = [next(iter(case.settings.values())) for case in study.cases]
    for line, curve in enumerate(curves):
        for axis, metric in zip(axes[line], MEASURES, strict=True):
            for position, method, colour, marker in methods:
                aside = 2 ** (0.08 * (position - (len(methods) - 1) / 2))  # so that methods do not hide each other
                part = frame[(frame["curve"] == curve) & (frame["method"] == method)]
                if of_paper and method in paper.TABLE1:
                    axis.axhline(paper.TABLE1[method][metric.name][0], color=colour, linestyle=":", linewidth=1.2)
                if part.empty:
                    continue
                means, low, high = (
                    part[column] for column in (metric.name, f"{metric.name}_low", f"{metric.name}_high")
                )
                bars = [(means - low).clip(lower=0), (high - means).clip(lower=0)]
                look: dict[str, Any] = {"color": colour, "marker": marker, "capsize": 3, "markersize": 5}
                axis.errorbar(aside * part["value"], means, bars, label=names[method], **look)
                for number, case in enumerate(study.cases):
                    if (case.curve, case.method) == (curve, method):
                        own = rows[(rows["case"] == number) & (rows["found"] | (metric is FAILURE))]
                        axis.plot(
                            aside * 1.03 * values[number], own[metric.name].mean(), ".", color=colour, markersize=4
                        )
            axis.set_xscale("log", base=2)
            ticks = sorted(frame.loc[frame["curve"] == curve, "value"].unique())
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
            axis.set_xlabel(curve)
            axis.set_title(metric.text if line == 0 else "")
            bottom, top = axis.get_ylim()
            axis.set_ylim(0 if metric is FAILURE else max(bottom, 0), min(top, 105) if metric is FAILURE else top)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    note = "bars: 95 % intervals; dots: trainings" + ("; dotted: the paper" if of_paper else "")
    figure.suptitle(note, fontsize=9, color=GREY)
    return figure
