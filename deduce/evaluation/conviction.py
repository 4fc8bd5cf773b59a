"""The price of conviction: how far methods go until other networks believe their counterfactuals too.

A *curve* is a sweep whose points demand more and more confidence of the explained network. At each point stands the
*oracle rate*, the mean share of the oracles that see the target, over all pairs: a pair that was not found convinces
nobody. Between two points the curve is a straight line, so that methods can be compared at an equal oracle rate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deduce.evaluation.figures import GREY, interval, styled
from deduce.evaluation.intervals import Estimate, mean
from deduce.evaluation.metrics import METRICS
from deduce.evaluation.tables import MISSING, Cell, Column, Table, number, number_cell
from deduce.sweeps import Sweep

ORACLE = "oracle"
COSTS = {name: METRICS[name].text for name in ("l1", "l0", "agan")}  # what conviction costs; means over found pairs
ROUNDING = 1e-9
REACHED, AT_LOWEST, NEVER = "reached", "at most, as its lowest setting convinces more", "not reached"
CLOSER, FARTHER, UNDECIDED, OPEN = "closer", "farther", "not told apart", "open"
WORDS = {CLOSER: "closer than", FARTHER: "farther than", UNDECIDED: "not told apart from", OPEN: "nothing known beside"}


@dataclass(frozen=True)
class Step:
    """One point of a curve."""

    label: str
    pairs: int
    found: int
    rate: Estimate  # of all pairs
    cost: dict[str, Estimate]  # of the found pairs


@dataclass(frozen=True)
class Curve:
    name: str  # as people read it
    method: str
    steps: list[Step]


def curves(rows: pd.DataFrame, sweeps: Sequence[Sweep]) -> dict[str, Curve]:
    """By sweep, its curve; `rows` is the long form of all sweeps, with a row per variant, training and pair."""
    names = dict(rows[["method", "display_name"]].drop_duplicates().itertuples(index=False))
    result = {}
    for sweep in sweeps:
        shared = set.intersection(*(set(point.settings.items()) for point in sweep.points))
        changed = sorted(f"{key} = {value}" for key, value in shared)
        name = ", ".join([names[sweep.points[0].variant], *changed])
        steps = [_step(point.label, rows[rows["method"] == point.variant]) for point in sweep.points]
        result[sweep.name] = Curve(name, sweep.method, steps)
    return result


def _step(label: str, rows: pd.DataFrame) -> Step:
    found = rows[rows["found"]]
    rate = mean(rows[ORACLE].where(rows["found"], 0.0), rows)
    cost = {name: mean(chosen[name], chosen) for name in COSTS for chosen in [found[found[name].notna()]]}
    return Step(label, len(rows), len(found), rate, cost)


def at_rate(curve: Curve, metric: str, rate: float) -> tuple[str, Estimate | None]:
    """Whether the curve reaches an oracle rate, and the metric's mean where it first does; never extrapolated.

    The interval of an interpolated mean has the parts of both neighbours' means and rates, by the linear approximation.
    """
    steps = [step for step in curve.steps if step.found]
    first = next((i for i, step in enumerate(steps) if step.rate.value >= rate - ROUNDING), None)
    if first is None:
        return NEVER, None
    before, after = steps[max(first - 1, 0)], steps[first]
    state = REACHED if first else AT_LOWEST
    if not (before.cost[metric].images and after.cost[metric].images):  # nothing was scored
        return state, None
    if state == AT_LOWEST:
        return state, after.cost[metric]
    rise = after.rate.value - before.rate.value
    share = (rate - before.rate.value) / rise
    slope = (after.cost[metric].value - before.cost[metric].value) / rise

    def between(low: Estimate, high: Estimate) -> Estimate:
        return (1 - share) * low - (-share) * high

    cost = between(before.cost[metric], after.cost[metric])
    return state, replace(cost - slope * between(before.rate, after.rate), value=cost.value)


def points(found: Mapping[str, Curve]) -> pd.DataFrame:
    """One row per point of each curve: failures in %, and oracle rate and costs with the ends of their intervals."""
    rows: list[dict[str, Any]] = []
    for sweep, curve in found.items():
        for step in curve.steps:
            row: dict[str, Any] = {"sweep": sweep, "method": curve.method, "curve": curve.name, "setting": step.label}
            row |= {"pairs": step.pairs, "found": step.found, "failure": 100 * (1 - step.found / step.pairs)}
            row |= {"trainings": step.rate.trainings, "images": step.rate.images}
            ends = step.rate.rate_interval()
            row |= {ORACLE: step.rate.value, f"{ORACLE}_low": ends[0], f"{ORACLE}_high": ends[1]}
            for name, cost in step.cost.items():
                row |= {name: cost.value} | dict(zip((f"{name}_low", f"{name}_high"), cost.interval(), strict=True))
            rows.append(row)
    return pd.DataFrame(rows)


def at_equal_rates(found: Mapping[str, Curve], rates: Sequence[float]) -> pd.DataFrame:
    """One row per oracle rate, metric and curve: the interpolated mean, and the first curve's mean minus it.

    The verdict is the first curve's: `closer` if its mean is smaller beyond doubt. A mean that is known only to be at
    most so large is never said to be the larger one: the verdict is then `open`.
    """
    rows: list[dict[str, Any]] = []
    for rate in rates:
        for metric in COSTS:
            first, own = None, ""
            for sweep, curve in found.items():
                state, cost = at_rate(curve, metric, rate)
                row = {"rate": rate, "metric": metric, "sweep": sweep, "curve": curve.name, "state": state}
                row |= _numbers("", cost)
                if not rows or row["rate"] != rows[-1]["rate"] or row["metric"] != rows[-1]["metric"]:
                    first, own = cost, state
                elif first is not None and cost is not None:
                    row |= _numbers("difference", first - cost)
                    row["verdict"] = _verdict((first - cost).interval(), own, state)
                rows.append(row)
    columns = ["rate", "metric", "sweep", "curve", "state", "mean", "low", "high"]
    columns += ["difference", "difference_low", "difference_high", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def _numbers(prefix: str, estimate: Estimate | None) -> dict[str, float]:
    values = (np.nan,) * 3 if estimate is None else (estimate.value, *estimate.interval())
    ends = [f"{prefix}_low", f"{prefix}_high"] if prefix else ["low", "high"]
    return dict(zip([prefix or "mean", *ends], values, strict=True))


def _verdict(ends: tuple[float, float], own: str, other: str) -> str:
    if ends[1] < 0:
        return CLOSER if other == REACHED else OPEN
    if ends[0] > 0:
        return FARTHER if own == REACHED else OPEN
    return UNDECIDED


def points_table(frame: pd.DataFrame, description: str) -> Table:
    """A row per point, each mean with its interval."""
    columns = [Column("method", numeric=False), Column("setting", numeric=False), Column("failure in %")]
    columns += [Column("oracle rate in %"), *(Column(text) for text in COSTS.values())]
    rows = []
    for line in frame.to_dict("records"):
        rate, *costs = ([line[f"{name}{end}"] for end in ("", "_low", "_high")] for name in (ORACLE, *COSTS))
        rows.append([Cell(line["curve"]), Cell(line["setting"]), number_cell(line["failure"], 1)])
        rows[-1] += [_with_ends([100 * value for value in rate], decimals=0), *map(_with_ends, costs)]
    caption = (
        f"{description} Over {frame['pairs'].max()} pairs: the oracle rate is of all pairs, where a pair that was not "
        f"found convinces nobody; distances and AGAN are means over the found pairs. {_intervals_are(frame)}"
    )
    return Table(caption.strip(), columns, rows)


def _intervals_are(frame: pd.DataFrame) -> str:
    trainings, images = int(frame["trainings"].max()), int(frame["images"].max())
    over = f"In brackets: 95 % intervals over {images} images"
    if trainings > 1:
        return f"{over} and {trainings} trainings of the explained networks."
    return f"{over}, with one training of each network; another training can move every curve."


def equal_table(frame: pd.DataFrame, about: pd.DataFrame) -> Table:
    """A row per curve, a group of columns per oracle rate: the fair form of the paper's table 1."""
    columns, curves_of = [Column("method", numeric=False)], list(frame["curve"].drop_duplicates())
    rows = [[Cell(curve)] for curve in curves_of]
    for (rate, metric), part in frame.groupby(["rate", "metric"], sort=False):
        columns.append(Column(COSTS[metric], group=f"at {100 * rate:.0f} %"))
        for row, line in zip(rows, part.to_dict("records"), strict=True):
            cell = _with_ends([line["mean"], line["low"], line["high"]])
            bound = line["state"] == AT_LOWEST and pd.notna(line["mean"])
            row.append(replace(cell, text=f"≤ {cell.text}") if bound else cell)
    highest = about.groupby("curve", sort=False)[ORACLE].max()
    caption = (
        "The methods at an equal oracle rate, interpolated between the points of each curve. ≤: the lowest setting "
        f"convinces more oracles already. {MISSING}: no setting convinces so many; nothing is extrapolated. "
        f"{_intervals_are(about)}"
    )
    reach = "; ".join(f"{curve} {100 * rate:.0f} %" for curve, rate in highest.items())
    return Table(caption, columns, rows, notes=[*sentences(frame), f"Highest oracle rate of each curve: {reach}."])


def sentences(frame: pd.DataFrame) -> list[str]:
    """What the first curve's L1 is beside each other curve's at each oracle rate where both can be said."""
    result = []
    for rate, part in frame[frame["metric"] == "l1"].groupby("rate", sort=False):
        first, *others = part.to_dict("records")
        texts = [_beside(other) for other in others if isinstance(other["verdict"], str)]
        if texts:
            own = f"{_at_most(first)}{number(first['mean'], 1)}"
            result.append(f"At {100 * rate:.0f} %, {first['curve']} has an L1 of {own}: {', '.join(texts)}.")
    return result


def _beside(other: Mapping[str, Any]) -> str:
    """The first curve's verdict beside another curve, with the other's L1 and the difference of both."""
    numbers = [number(other[name], 1) for name in ("mean", "difference", "difference_low", "difference_high")]
    text = f"{WORDS[other['verdict']]} {other['curve']} ({_at_most(other)}{numbers[0]}"
    return f"{text})" if other["verdict"] == OPEN else f"{text}; difference {numbers[1]} [{numbers[2]}, {numbers[3]}])"


def _at_most(line: Mapping[str, Any]) -> str:
    return "at most " if line["state"] == AT_LOWEST else ""


def _with_ends(values: Sequence[float], decimals: int = 1) -> Cell:
    """A mean and the ends of its interval as `43.1 [38.0, 50.2]`."""
    value, low, high = values
    ends = "" if np.isnan([value, low, high]).any() else f" [{number(low, decimals)}, {number(high, decimals)}]"
    return replace(number_cell(value, decimals), suffix=ends)


def picture(found: Mapping[str, Curve]) -> Figure:
    """A panel per cost, a line per curve: the cost against the oracle rate, with the intervals of both."""
    figure, axes = plt.subplots(1, len(COSTS), figsize=(10.5, 3.9))
    for axis, (metric, text) in zip(axes, COSTS.items(), strict=True):
        for _, sweep, colour, marker in styled(found):
            steps = [step for step in found[sweep].steps if step.found]
            rates = [100 * step.rate.value for step in steps]
            means = [step.cost[metric].value for step in steps]
            axis.plot(rates, means, "-", color=colour, linewidth=1.4, zorder=3)
            for step, rate, value in zip(steps, rates, means, strict=True):
                look: dict[str, Any] = {"color": colour, "elinewidth": 0.8, "alpha": 0.45}
                ends = [100 * end for end in step.rate.rate_interval()], step.cost[metric].interval()
                bars = [None if np.isnan([mid, *pair]).any() else interval(mid, *pair)
                        for mid, pair in zip((rate, value), ends, strict=True)]  # fmt: skip
                axis.errorbar(rate, value, xerr=bars[0], yerr=bars[1], fmt="none", **look)
            label = found[sweep].name if axis is axes[0] else None
            axis.plot(rates, means, marker, color=colour, markersize=6, zorder=4, label=label)
        axis.set(title=text, xlabel="oracle rate in % of all pairs", xlim=(-3, 103), ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("each line from its lowest to its highest setting; bars: 95 % intervals", fontsize=9, color=GREY)
    return figure
