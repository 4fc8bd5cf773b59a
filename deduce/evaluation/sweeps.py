"""The evaluation of a sweep: the means of its points over the same pairs, tests against one of them, and a figure."""

import re
from collections.abc import Mapping
from itertools import cycle
from types import MappingProxyType

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deduce.evaluation import intervals, paper, results, statistics, summary
from deduce.evaluation.figures import GREY, PALETTE, interval, method_rows
from deduce.evaluation.intervals import Estimate
from deduce.evaluation.metrics import FAILURE, METRICS, Metric
from deduce.evaluation.tables import Cell, Column, Table, number, number_cell, p_value, with_spread
from deduce.shards import Pairs, Scores, Shard
from deduce.sweeps import OWN, VALIDATION, Sweep
from deduce.variants import searched

DISTANCES = [METRICS["l0"], METRICS["l1"]]
PRINTED = [metric.name for metric in (*DISTANCES, FAILURE)]  # the columns of the paper's tables
GREEK = str.maketrans({"λ": "lambda", "μ": "mu", "δ": "delta"})


def key(label: str) -> str:
    """A label as CSV files and paper.py write it: `λ = 0` is `lambda=0`."""
    return re.sub(r"\s*([=,])\s*", r"\1", label.translate(GREEK))


def measures(sweep: Sweep) -> list[Metric]:
    """The metrics of a sweep's table: distances, the scores that it asks for, and failures."""
    return [*DISTANCES, *(METRICS[name] for name in sweep.scores), FAILURE]


def long_form(
    sweeps: list[Sweep],
    pairs: dict[str, Pairs],
    shards: dict[tuple[str, str], Shard],
    scores: Mapping[tuple[str, str], Scores] = MappingProxyType({}),
) -> pd.DataFrame:
    """One row per variant, test set, image and target, as in the results table; files are by (variant, test set)."""
    points = {point.variant: (sweep, point) for sweep in sweeps for point in sweep.points}
    replicates = [
        (*two, variant, seed) for two in points.values() for variant in two[1].replicates for seed in two[0].on
    ]
    parts = []
    for sweep, point, variant, seed in replicates:
        shard, scored, where = shards[searched(variant), seed], scores.get((variant, seed)), f"{variant}/{seed}"
        # Shards do not record the settings of models.
        settings = {name: value for name, value in point.settings.items() if "." not in name}
        results.check_settings({where: shard}, settings)
        if scored is not None:
            scored.scores(shard, where)
        named = sweep.method, seed, pairs[seed]
        table = results.rows(*named, shard, scored, where, point.replicates[variant])
        parts.append(table.assign(method=point.variant))
    return pd.concat(parts, ignore_index=True)


def compared(table: pd.DataFrame, sweep: Sweep, others: dict[str, Sweep]) -> pd.Series:
    """Row mask of the pairs behind the sweep's means: the pairs that all points of the sweeps in `compare_on` found.

    Points that fail too often are excluded from the rows and from the mask: with them, hardly a pair would be left
    (appendix B).
    """
    failing = 1 - table.groupby("method")["found"].mean()

    def sound(part: Sweep) -> list[str]:
        return [point.variant for point in part.points if failing[point.variant] <= part.leave_out_failing_above]

    rows = table["method"].isin(sound(sweep))
    if sweep.compare_on == [OWN]:
        return rows & table["found"]
    return rows & summary.common(table, [variant for name in sweep.compare_on for variant in sound(others[name])])


def frame(
    table: pd.DataFrame, mask: pd.Series, sweep: Sweep, changed: dict[str, Estimate], of_paper: bool = True
) -> pd.DataFrame:
    """One row per point: setting, label, settings, means, number of pairs, and the paper's figures.

    `changed` is, by variant, the share of pairs whose image differs from the reference's; `changed_low` and
    `changed_high` are the ends of its interval. `of_paper` says whether the dataset is the paper's.
    """
    points = [{"setting": key(point.label), "label": point.label} | point.settings for point in sweep.points]
    per_set = summary.per_seed(table, [metric.name for metric in measures(sweep) if metric is not FAILURE], mask)
    means = summary.over_seeds(per_set).set_index("method")
    means["pairs"] = per_set["pairs"].groupby("method").sum()
    means["found"] = table.groupby("method")["found"].sum()
    means["iterations"] = table[table["found"]].groupby("method")["iterations"].mean()
    shares = {variant: (share.value, *share.rate_interval()) for variant, share in changed.items()}
    means = means.join(pd.DataFrame(shares, index=["changed", "changed_low", "changed_high"]).T)
    means = means.loc[[point.variant for point in sweep.points]].reset_index(drop=True)
    frame = pd.concat([pd.DataFrame(points, dtype=object).infer_objects(), means], axis=1)
    printed = paper.SWEEPS.get(sweep.name, {}) if of_paper else {}
    rows = [printed.get(setting, (np.nan,) * len(PRINTED)) for setting in frame["setting"]]
    return frame.join(pd.DataFrame(rows, columns=[f"paper_{name}" for name in PRINTED]))


def changed(sweep: Sweep, shards: dict[tuple[str, str], Shard]) -> dict[str, Estimate]:
    """By variant, the share of pairs, found or not, for which a point ended in another image than the reference."""
    images = {
        point.variant: np.concatenate([shards[searched(point.variant), seed].counterfactual for seed in sweep.on])
        for point in sweep.points
    }
    name, reference = next(
        (point.variant, images[point.variant]) for point in sweep.points if point.label == sweep.reference
    )
    image = {seed: shards[searched(name), seed].image for seed in sweep.on}
    indices = [pd.DataFrame({"training_seed": 1, "seed": seed, "image": image[seed]}) for seed in sweep.on]
    pairs = pd.concat(indices, ignore_index=True)
    differ = {variant: pd.Series((ends != reference).any((1, 2, 3))) for variant, ends in images.items()}
    return {variant: intervals.mean(values, pairs) for variant, values in differ.items()}


def tests(table: pd.DataFrame, mask: pd.Series, sweep: Sweep) -> pd.DataFrame:
    """The reference (a) against every other point (b), paired: L0 and L1 on the compared pairs, failures on all.

    If each point is averaged over its own pairs, L0 and L1 are compared on the pairs that both points found.
    Differences are a - b, ratios b / a.
    """
    variants = {point.label: point.variant for point in sweep.points}
    reference = variants.pop(sweep.reference)
    wide = table.assign(compared=mask, failure=~table["found"]).set_index([*summary.PAIR, "method"]).unstack("method")
    image = statistics.images(wide.index.to_frame(index=False))
    rows = []
    for label, other in variants.items():
        columns = [reference, other]
        both = wide["compared"][columns].astype(bool).all(axis=1).to_numpy()
        for metric in measures(sweep):
            values = wide[metric.name][columns].to_numpy(float)
            chosen = np.isfinite(values).all(axis=1) & (True if metric is FAILURE else both)
            (a, b), of_image = values[chosen].T, image[chosen]
            result = statistics.compare(a, b, of_image, metric.lower_is_better) | statistics.ratio(b, a, of_image)
            rows.append({"a": key(sweep.reference), "b": key(label), "metric": metric.name} | result)
    frame = pd.DataFrame(rows)
    if len(frame):  # a family is the comparisons on one metric
        frame = statistics.clustered(frame)
        adjusted = frame.groupby("metric")["p"].transform(lambda p: statistics.holm(p.to_numpy()))
        frame.insert(frame.columns.get_loc("p") + 1, "p_holm", adjusted)
    return frame


def verdict(frame: pd.DataFrame, tests: pd.DataFrame, sweep: Sweep) -> list[str]:
    """For each point that the paper prints beside the reference: whether this run tells them apart, and which way."""
    points = frame.set_index("setting")
    reference = key(sweep.reference)
    if pd.isna(points.loc[reference, "paper_l0"]):
        return []
    if points.loc[reference, "pairs"] == 0:
        failure, printed = points.loc[reference, ["failure", "paper_failure"]]
        return [f"{sweep.reference} fails too often here to be compared ({failure:.1f} %; the paper: {printed:.1f} %)."]
    lines = []
    for other in points.index[(points["pairs"] > 0) & points["paper_l0"].notna()].drop(reference):
        by_metric = tests[tests["b"] == other].set_index("metric")
        texts, apart = [], {}
        for metric in DISTANCES:
            row = by_metric.loc[metric.name]
            printed, printed_other = points.loc[[reference, other], f"paper_{metric.name}"]
            texts.append(
                f"{metric.text} {number(row.mean_a)} against {number(row.mean_b)} (p = {p_value(row.p)}, adjusted "
                f"{p_value(row.p_holm)}; the paper: {printed:.2f} against {printed_other:.2f})"
            )
            if row.p_holm < statistics.SIGNIFICANT:
                apart[metric.text] = np.sign(row.mean_difference) == np.sign(printed - printed_other)
        line = f"{sweep.reference} against {points.loc[other, 'label']}: {_judgement(apart)}: {', '.join(texts)}"
        lines.append(f"{line}, over {int(by_metric.loc[DISTANCES[0].name, 'n'])} pairs.")
    return lines


def _judgement(apart: dict[str, bool]) -> str:
    """The metrics in which two points differ, and whether in the paper's direction, in words."""
    if not apart:
        return "not told apart"
    where = "" if len(apart) == len(DISTANCES) else f" in {' and '.join(apart)} only"
    if len(set(apart.values())) > 1:
        return f"told apart{where}, in different directions"
    as_in_paper = all(apart.values())
    return f"told apart{where}, {'as the paper reports' if as_in_paper else 'the other way round than in the paper'}"


def as_table(frame: pd.DataFrame, tests: pd.DataFrame, sweep: Sweep) -> Table:
    """A row per point; the best of each column is bold, and the paper's figures stand beside where it has any."""
    metrics, best = measures(sweep), {}
    printed = [metric for metric in metrics if metric.name in PRINTED] if frame["paper_l0"].notna().any() else []
    for metric in metrics:
        if (values := frame[metric.name]).nunique() > 1:
            best[metric.name] = values.min() if metric.lower_is_better else values.max()
    names = [metric.name for metric in metrics]
    rows = [
        [Cell(line["label"])]
        + [with_spread(line[name], line[f"{name}_std"], bold=line[name] == best.get(name)) for name in names]
        + [number_cell(100 * line["changed"], 1), *(number_cell(line[f"paper_{metric.name}"]) for metric in printed)]
        for line in frame.to_dict("records")
    ]
    columns = [Column("setting", numeric=False), *(Column(metric.text, metric.latex) for metric in metrics)]
    columns.append(Column(f"differs from {sweep.reference} in %"))
    columns += [Column(f"paper: {metric.text}", f"paper: {metric.latex}") for metric in printed]
    return Table(_caption(frame, sweep), columns, rows, notes=verdict(frame, tests, sweep))


def _caption(frame: pd.DataFrame, sweep: Sweep) -> str:
    where = "the validation batch" if sweep.on == [VALIDATION] else f"test set {', '.join(sweep.on)}"
    pairs = int(frame["pairs"].max())
    if sweep.compare_on == [OWN]:
        over = f"Means on {where} over the pairs that each setting found"
    elif pairs:
        over = f"Means on {where} over the {pairs} pairs that all compared settings found"
    else:
        over = f"On {where} no pair was found by all compared settings, so that there are no distances"
    caption = f"{sweep.description} {over}; failures are of all pairs.".strip()
    share = 100 * sweep.leave_out_failing_above
    if len(left_out := frame.loc[frame["failure"] > share, "label"]):
        caption += f" Not compared, as they fail on more than {share:.0f} %: {'; '.join(left_out)}."
    return caption


def picture(frame: pd.DataFrame, table: pd.DataFrame, mask: pd.Series, sweep: Sweep) -> Figure:
    """A row per point and a panel per measure: the mean with its interval over images; hollow, the paper's figure."""
    size, places = (9.0, 0.27 * len(frame) + 1.1), np.arange(len(frame))
    metrics = measures(sweep)
    figure, axes = plt.subplots(1, len(metrics), figsize=size, sharey=True, squeeze=False)
    values = table.assign(failure=100.0 * ~table["found"])
    for axis, metric, colour in zip(axes[0], metrics, cycle(PALETTE), strict=False):
        for place, (point, mean) in enumerate(zip(sweep.points, frame[metric.name], strict=True)):
            chosen = values[(values["method"] == point.variant) & (True if metric is FAILURE else mask)]
            chosen = chosen[chosen[metric.name].notna()]
            ends = statistics.bootstrap(chosen[metric.name].to_numpy(float), statistics.images(chosen))
            bars = None if np.isnan([*ends, mean]).any() else interval(mean, *ends)
            axis.errorbar(mean, place, xerr=bars, fmt="o", color=colour, capsize=2, markersize=5)
        if metric.name in PRINTED:
            axis.plot(frame[f"paper_{metric.name}"], places, "D", color=GREY, markerfacecolor="none", markersize=5)
        axis.set_title(metric.text)
        axis.grid(axis="y", visible=False)
    method_rows(axes[0, 0], list(frame["label"]))
    hollow = "; hollow: the paper" if frame["paper_l0"].notna().any() else ""
    figure.suptitle(f"mean, with its 95 % interval over images{hollow}", fontsize=9, color=GREY)
    return figure
