"""What a sweep says: the means of each of its points over the same pairs, tests against one of them, and a picture."""

import re
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deduce.evaluation import paper, results, statistics, summary
from deduce.evaluation.figures import GREY, PALETTE
from deduce.evaluation.metrics import FAILURE, METRICS, Metric
from deduce.evaluation.tables import Cell, Table, number, p_value
from deduce.shards import Pairs, Shard
from deduce.sweeps import OWN, VALIDATION, Sweep

DISTANCES = [METRICS["l0"], METRICS["l1"]]
SHOWN = [*DISTANCES, FAILURE]
SIGNIFICANT = 0.05
GREEK = {"λ": "lambda", "μ": "mu", "δ": "delta"}


def key(label: str) -> str:
    """A label as files and the paper's figures have it: `λ = 0` is `lambda=0`."""
    for letter, name in GREEK.items():
        label = label.replace(letter, name)
    return re.sub(r"\s*([=,])\s*", r"\1", label)


def long_form(sweeps: list[Sweep], pairs: dict[str, Pairs], shards: dict[tuple[str, str], Shard]) -> pd.DataFrame:
    """One row per variant, test set, image and target, as the results table has them; `shards` by (variant, seed)."""
    methods = {point.variant: sweep.method for sweep in sweeps for point in sweep.points}
    settings = {point.variant: point.settings for sweep in sweeps for point in sweep.points}
    parts = []
    for (variant, seed), shard in shards.items():
        where = f"{variant}/{seed}"
        # Of the settings that are a model's, a shard says nothing.
        results.check_settings({where: shard}, {k: v for k, v in settings[variant].items() if "." not in k})
        part = results.rows(methods[variant], seed, pairs[seed], shard, None, where)
        parts.append(part.assign(method=variant))
    return pd.concat(parts, ignore_index=True)


def compared(table: pd.DataFrame, sweep: Sweep, others: dict[str, Sweep]) -> pd.Series:
    """Row mask of what the sweep's means are over: the pairs that every point of the sweeps it is compared on found.

    Points that fail too often have no say, and no rows: with them, hardly a pair would be left (appendix B).
    """
    failing = 1 - table.groupby("method")["found"].mean()

    def takes_part(one: Sweep) -> list[str]:
        return [point.variant for point in one.points if failing[point.variant] <= one.leave_out_failing_above]

    shown = table["method"].isin(takes_part(sweep))
    if sweep.compare_on == [OWN]:
        return shown & table["found"]
    return shown & summary.common(table, [name for other in sweep.compare_on for name in takes_part(others[other])])


def frame(table: pd.DataFrame, mask: pd.Series, sweep: Sweep, changed: dict[str, float]) -> pd.DataFrame:
    """One row per point: setting, label, what it sets, the means, the number of pairs, and what the paper prints.

    `changed` is the share of pairs, by variant, whose image is another than the reference's.
    """
    per_set = summary.per_seed(table, [metric.name for metric in DISTANCES], mask)
    means = summary.over_seeds(per_set).set_index("method")
    pairs = per_set["pairs"].groupby("method").sum()
    found = table.groupby("method")["found"].sum()
    iterations = table[table["found"]].groupby("method")["iterations"].mean()
    varied = dict.fromkeys(name for point in sweep.points for name in point.settings)
    rows = []
    for point in sweep.points:
        row: dict[str, Any] = {"setting": key(point.label), "label": point.label}
        row |= {name: point.settings.get(name) for name in varied}
        for metric in SHOWN:
            row |= {name: means.loc[point.variant, name] for name in (metric.name, f"{metric.name}_std")}
        row |= {"pairs": pairs[point.variant], "found": found[point.variant]}
        row |= {"iterations": iterations.get(point.variant, np.nan), "changed": changed.get(point.variant, np.nan)}
        printed = paper.SWEEPS.get(sweep.name, {}).get(row["setting"], (np.nan,) * len(SHOWN))
        rows.append(row | {f"paper_{metric.name}": value for metric, value in zip(SHOWN, printed, strict=True)})
    return pd.DataFrame(rows)


def changed(sweep: Sweep, shards: dict[tuple[str, str], Shard]) -> dict[str, float]:
    """The share of pairs, found or not, for which a point ended in another image than the reference, by variant."""
    reference = next(point.variant for point in sweep.points if point.label == sweep.reference)
    shares = {}
    for point in sweep.points:
        differs = [
            (shards[point.variant, seed].counterfactual != shards[reference, seed].counterfactual).any((1, 2, 3))
            for seed in sweep.on
        ]
        shares[point.variant] = float(np.concatenate(differs).mean())
    return shares


def tests(table: pd.DataFrame, mask: pd.Series, sweep: Sweep) -> pd.DataFrame:
    """The reference (a) against every other point (b), paired: L0 and L1 on the compared pairs, failures on all.

    Where points are compared on their own pairs, on the pairs that both found. Differences are a - b.
    """
    names = {point.label: point.variant for point in sweep.points}
    wide = table.assign(compared=mask).set_index([*summary.PAIR, "method"]).unstack("method")
    image = wide.index.get_level_values("image").to_numpy()
    rows = []
    for label, other in names.items():
        if label == sweep.reference:
            continue
        two = [names[sweep.reference], other]
        both = wide["compared"][two].astype(bool).all(axis=1).to_numpy()
        for metric in SHOWN:
            if metric is FAILURE:
                at, values = np.ones(len(wide), bool), (~wide["found"][two].astype(bool)).astype(float).to_numpy()
            else:
                at, values = both, wide[metric.name][two].astype(float).to_numpy()
            result = statistics.compare(values[at, 0], values[at, 1], image[at])
            rows.append({"a": key(sweep.reference), "b": key(label), "metric": metric.name} | result)
    made = pd.DataFrame(rows)
    if len(made):  # a family is the comparisons on one metric
        adjusted = made.groupby("metric")["p"].transform(lambda p: statistics.holm(p.to_numpy()))
        made.insert(made.columns.get_loc("p") + 1, "p_holm", adjusted)
    return made


def verdict(frame: pd.DataFrame, tests: pd.DataFrame, sweep: Sweep) -> list[str]:
    """For each point that the paper prints beside the reference: whether this run tells them apart, and which way."""
    points = frame.set_index("setting")
    reference = key(sweep.reference)
    if pd.isna(points.loc[reference, "paper_l0"]):
        return []
    if points.loc[reference, "pairs"] == 0:
        failure, theirs = points.loc[reference, ["failure", "paper_failure"]]
        return [f"{sweep.reference} fails too often here to be compared ({failure:.1f} %; the paper: {theirs:.1f} %)."]
    lines = []
    for other in points.index[(points["pairs"] > 0) & points["paper_l0"].notna()].drop(reference):
        printed = points.loc[[reference, other], [f"paper_{metric.name}" for metric in DISTANCES]].to_numpy()
        own = tests[tests["b"] == other].set_index("metric")
        said, apart = [], {}
        for metric, (theirs, theirs_other) in zip(DISTANCES, printed.T, strict=True):
            row = own.loc[metric.name]
            said.append(
                f"{metric.text} {number(row.mean_a)} against {number(row.mean_b)} "
                f"(p = {p_value(row.p)}, adjusted {p_value(row.p_holm)}; "
                f"the paper: {theirs:.2f} against {theirs_other:.2f})"
            )
            if row.p_holm < SIGNIFICANT:
                apart[metric.text] = np.sign(row.mean_difference) == np.sign(theirs - theirs_other)
        line = f"{sweep.reference} against {points.loc[other, 'label']}: {_judgement(apart)}: {', '.join(said)}"
        lines.append(f"{line}, over {int(own.loc[DISTANCES[0].name, 'n'])} pairs.")
    return lines


def _judgement(apart: dict[str, bool]) -> str:
    """In words: the metrics that two points differ in, and whether in the paper's direction."""
    if not apart:
        return "not told apart"
    where = "" if len(apart) == len(DISTANCES) else f" in {' and '.join(apart)} only"
    ways = {True: "as the paper reports", False: "the other way round than in the paper"}
    way = ways[next(iter(apart.values()))] if len(set(apart.values())) == 1 else "in different directions"
    return f"told apart{where}, {way}"


def as_table(frame: pd.DataFrame, tests: pd.DataFrame, sweep: Sweep) -> Table:
    """As people read it: a row per point, the best of each column bold, the paper's figures beside where it has any."""
    beside = frame[[f"paper_{metric.name}" for metric in SHOWN]].notna().any(axis=None)
    # The best is bold, as in the paper, where there is one.
    differ = [metric.name for metric in SHOWN if frame[metric.name].nunique() > 1]
    best = {name: frame[name].min() for name in differ}
    rows = []
    for _, line in frame.iterrows():
        cells = [Cell(line["label"])]
        for metric in SHOWN:
            spread = line[f"{metric.name}_std"]
            suffix = "" if pd.isna(spread) or pd.isna(line[metric.name]) else f" ({spread:.2f})"
            cells.append(
                Cell(number(line[metric.name]), bold=line[metric.name] == best.get(metric.name), suffix=suffix)
            )
        cells.append(Cell(number(100 * line["changed"], 1)))
        cells += [Cell(number(line[f"paper_{metric.name}"])) for metric in SHOWN] if beside else []
        rows.append(cells)
    header = [Cell("setting"), *(_heading(metric) for metric in SHOWN), Cell(f"differs from {sweep.reference} in %")]
    if beside:
        header += [Cell(f"paper: {metric.text}", f"paper: {metric.latex}") for metric in SHOWN]
    notes = verdict(frame, tests, sweep)
    return Table(
        _caption(frame, sweep), header, rows, notes=["\n".join(f"- {note}" for note in notes)] if notes else []
    )


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


def _heading(metric: Metric) -> Cell:
    return Cell(metric.text, metric.latex)


def picture(frame: pd.DataFrame, table: pd.DataFrame, mask: pd.Series, sweep: Sweep) -> Figure:
    """A row per point and a panel per measure: the mean with its interval over images; hollow, what the paper has."""
    height = 0.27 * len(frame) + 1.1
    figure, axes = plt.subplots(1, len(SHOWN), figsize=(9.0, height), sharey=True, squeeze=False)
    values = table.assign(failure=100.0 * ~table["found"])
    places = np.arange(len(frame))
    for axis, metric, colour in zip(axes[0], SHOWN, PALETTE, strict=False):
        for place, point in enumerate(sweep.points):
            chosen = values[(values["method"] == point.variant) & (True if metric is FAILURE else mask)]
            mean = frame[metric.name].iloc[place]
            low, high = statistics.bootstrap(chosen[metric.name].to_numpy(float), chosen["image"].to_numpy())
            spread = None if np.isnan([low, high, mean]).any() else [[max(mean - low, 0)], [max(high - mean, 0)]]
            axis.errorbar(mean, place, xerr=spread, fmt="o", color=colour, capsize=2, markersize=5)
        axis.plot(frame[f"paper_{metric.name}"], places, "D", color=GREY, markerfacecolor="none", markersize=5)
        axis.set_title(metric.text)
        axis.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(places, list(frame["label"]))
    axes[0, 0].set_ylim(len(frame) - 0.5, -0.5)
    text = "mean, with its 95 % interval over images"
    if frame[[f"paper_{metric.name}" for metric in SHOWN]].notna().any(axis=None):
        text += "; hollow: the paper"
    figure.suptitle(text, fontsize=9, color=GREY)
    return figure
