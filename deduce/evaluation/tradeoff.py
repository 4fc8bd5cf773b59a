"""Nearness against conviction and realism: which method is on the front; and which scores say the same."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deduce.evaluation import summary
from deduce.evaluation.figures import GREY, interval, styled
from deduce.evaluation.intervals import Estimate, mean
from deduce.evaluation.metrics import METRICS
from deduce.evaluation.run import Run
from deduce.evaluation.tables import Cell, Column, Table, frame_table, number, number_cell

NEARNESS, OTHERS = "l1", ("oracle", "agan")  # each of the others is set against nearness
FRONT, PERHAPS, BEHIND = "on the front", "perhaps behind", "behind"
SAME = 0.8  # scores with a larger correlation are said to rank counterfactuals alike


def estimates(results: pd.DataFrame) -> tuple[dict[str, dict[str, Estimate]], str]:
    """By method and metric, the mean over the common pairs (over each method's own if there are none); and which."""
    rows, which = results[summary.common(results)], "every method found"
    if rows.empty:
        rows, which = results[results["found"]], "the method found (none was found by all)"
    scored = [name for name in (NEARNESS, *OTHERS) if name in rows and rows[name].notna().any()]
    by_method: dict[str, dict[str, Estimate]] = {}
    for method, part in rows.groupby("method", sort=False):
        known = {name: part[part[name].notna()] for name in scored}
        by_method[str(method)] = {name: mean(chosen[name], chosen) for name, chosen in known.items() if len(chosen)}
    return by_method, which


def standing(found: Mapping[str, Mapping[str, Estimate]], metric: str) -> dict[str, tuple[str, list[str]]]:
    """Whether each method is on the front of nearness and a metric, or which methods are better in both.

    A method is `behind` if another is better in both beyond doubt, and `perhaps behind` if only by the means.
    """
    places = {}
    for method, own in found.items():
        if not {NEARNESS, metric} <= own.keys():
            continue
        better: dict[str, list[str]] = {PERHAPS: [], BEHIND: []}
        for other, theirs in found.items():
            if other == method or not {NEARNESS, metric} <= theirs.keys():
                continue
            gains = [_gain(own[name], theirs[name], name) for name in (NEARNESS, metric)]
            if all(gain.value > 0 for gain in gains):
                certain = all(gain.interval()[0] > 0 for gain in gains)
                better[BEHIND if certain else PERHAPS].append(other)
        place = next((word for word in (BEHIND, PERHAPS) if better[word]), FRONT)
        places[method] = (place, better.get(place, []))
    return places


def _gain(own: Estimate, other: Estimate, metric: str) -> Estimate:
    """How much better the other mean is."""
    return own - other if METRICS[metric].lower_is_better else other - own


def _scale(metric: str) -> int:
    """A share is shown in per cent."""
    return 100 if METRICS[metric].share else 1


def _heading(metric: str) -> str:
    return METRICS[metric].text + " in %" * METRICS[metric].share


def tradeoff(run: Run) -> tuple[pd.DataFrame, Table]:
    """L1, oracle rate and AGAN of each method on the same pairs, and who is on the front."""
    found, which = estimates(run.results)
    measured = [name for name in OTHERS if any(name in means for means in found.values())]
    places = {metric: standing(found, metric) for metric in measured}
    rows, lines = [], []
    for method, means in found.items():
        row: dict[str, object] = {"method": method}
        cells = [Cell(run.names[method])]
        for name in (NEARNESS, *measured):
            value, ends = (means[name].value, means[name].interval()) if name in means else (np.nan, (np.nan, np.nan))
            row |= {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}
            low, high = (number(_scale(name) * end, 1) for end in ends)
            suffix = "" if np.isnan(ends).any() else f" [{low}, {high}]"
            cells.append(replace(number_cell(_scale(name) * value, 1), suffix=suffix))
        for metric in measured:
            place, better = places[metric].get(method, ("", []))
            row |= {f"front_{metric}": place, f"behind_{metric}": ", ".join(better)}
            cells.append(Cell(" ".join(filter(None, [place, ", ".join(run.names[other] for other in better)])) or "–"))
        rows.append(row)
        lines.append(cells)
    columns = [Column("method", numeric=False), *(Column(_heading(name)) for name in (NEARNESS, *measured))]
    columns += [Column(f"L1 and {METRICS[metric].text}", numeric=False) for metric in measured]
    caption = (
        f"Means over the pairs that {which}, with 95 % intervals (for these oracles). A method is behind another that "
        "is better in both beyond doubt, perhaps behind if only by the means, and on the front if no method is better "
        "in both."
    )
    return pd.DataFrame(rows), Table(caption, columns, lines)


def tradeoff_figure(run: Run) -> Figure:
    """A panel per score: the score against L1, a point per method with both intervals; the line is the front."""
    found, which = estimates(run.results)
    measured = [name for name in OTHERS if any(name in means for means in found.values())]
    figure, axes = plt.subplots(1, max(len(measured), 1), figsize=(9.2, 4.0), squeeze=False)
    for axis, metric in zip(axes[0], measured, strict=False):
        places, scale = standing(found, metric), _scale(metric)
        for _, method, colour, marker in styled(run.names):
            if method not in places:
                continue
            x, y = found[method][NEARNESS], scale * found[method][metric]
            bars = [
                None if np.isnan(each.interval()).any() else interval(each.value, *each.interval()) for each in (x, y)
            ]
            filled = colour if places[method][0] == FRONT else "white"
            axis.errorbar(x.value, y.value, xerr=bars[0], yerr=bars[1], fmt=marker, color=colour, capsize=3, zorder=3,
                          markersize=8, markerfacecolor=filled, label=run.names[method])  # fmt: skip
        front = sorted(
            (found[m][NEARNESS].value, scale * found[m][metric].value) for m in places if places[m][0] == FRONT
        )
        axis.plot(*zip(*front, strict=True), "--", color=GREY, linewidth=1, zorder=2)
        better = "lower" if METRICS[metric].lower_is_better else "higher"
        axis.set(xlabel="L1 (lower is better)", ylabel=f"{_heading(metric)} ({better} is better)")
        axis.set_xlim(left=0)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(f"pairs that {which}; filled: on the front, which is dashed", fontsize=9, color=GREY)
    return figure


def correlations(results: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rank correlation of every two metrics over found pairs, each turned so that lower is better.

    `pooled` is over the counterfactuals of all methods, where differences between methods decide; `within` is the mean
    of the correlations within each method and training.
    """
    rows = results[results["found"]]
    names = [name for name in METRICS if name in rows and rows[name].nunique() > 1]
    values = rows[names].astype(float) * [-1 if METRICS[name].lower_is_better is False else 1 for name in names]
    pooled = values.corr("spearman")
    groups = [part.corr("spearman") for _, part in values.groupby([rows["method"], rows["training_seed"]], sort=False)]
    within = pd.concat([*groups, pooled[:0]]).groupby(level=0).mean().reindex(index=names, columns=names)
    lines = [(a, b, within.loc[a, b], pooled.loc[a, b]) for a, b in combinations(names, 2)]
    return pd.DataFrame(lines, columns=["a", "b", "within", "pooled"])


def correlations_table(run: Run) -> tuple[pd.DataFrame, Table, Table]:
    """How alike two scores rank the counterfactuals: within each method, and over all methods."""
    frame = correlations(run.results)
    texts = {name: metric.text for name, metric in METRICS.items()}
    headings = {"a": "score", "b": "other score", "within": "within a method", "pooled": "over all methods"}
    caption = (
        "Spearman’s rank correlation over found pairs, each score turned so that lower is better. Over all methods, it "
        "is mostly the methods that differ; within a method it is the counterfactuals."
    )
    alike = frame[frame["within"].abs() >= SAME].sort_values("within", key=abs, ascending=False)
    shown = f"{caption} Here: those of {SAME} or more within a method, which say nearly the same."
    return frame, frame_table(frame, caption, headings, texts), frame_table(alike, shown, headings, texts)


def correlations_figure(run: Run) -> Figure:
    """A square per two scores: below the diagonal the correlation within a method, above it that over all methods."""
    frame = correlations(run.results)
    names = list(dict.fromkeys([*frame["a"], *frame["b"]]))
    matrix = pd.DataFrame(np.nan, names, names)
    for line in frame.itertuples():
        matrix.loc[line.b, line.a], matrix.loc[line.a, line.b] = line.within, line.pooled
    side = 0.42 * len(names) + 2.2
    figure, axis = plt.subplots(figsize=(side, side))
    axis.imshow(matrix.to_numpy(float) if names else np.full((1, 1), np.nan), cmap="PuOr", vmin=-1, vmax=1)
    for (row, column), value in np.ndenumerate(matrix.to_numpy(float)):
        if not np.isnan(value):
            colour = "white" if abs(value) > 0.7 else "black"
            axis.text(
                column, row, f"{value:.1f}".replace("-0.0", "0.0"), ha="center", va="center", fontsize=6.5, color=colour
            )
    texts = [METRICS[name].text for name in names]
    axis.set_xticks(range(len(names)), texts, rotation=90)
    axis.set_yticks(range(len(names)), texts)
    axis.grid(False)
    axis.set_title("below the diagonal: within a method; above: over all methods", fontsize=9, color=GREY)
    return figure
