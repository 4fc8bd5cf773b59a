"""What networks that no method explains see in the counterfactuals: rates, intervals and differences (docs/metrics.md).

The intervals are for other images and for other oracles: both are resampled in thought, as images and trainings are in
deduce/evaluation/intervals.py, whose estimates are used here also with an oracle in place of a training.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from deduce.evaluation import summary
from deduce.evaluation.intervals import Estimate, half_width, mean, wilson
from deduce.evaluation.metrics import ORACLE_COLUMNS
from deduce.evaluation.run import Run
from deduce.evaluation.tables import Cell, Column, Table, number
from deduce.models import ORACLES

COLUMNS = ["method", "oracle", "pairs", "seen", "rate", "low", "high", "interval"]
OF_ALL, WILSON = "images and oracles", "Wilson"
NATURAL = "original"  # images of the dataset that nobody changed, asked for their own class


def measured(results: pd.DataFrame) -> pd.DataFrame:
    """The rows that the oracles judged."""
    if not set(ORACLE_COLUMNS) <= set(results):
        return results[:0]
    return results[results[[*ORACLE_COLUMNS]].notna().all(axis=1)]


@dataclass(frozen=True, eq=False)
class Conviction:
    """The oracles' mean vote, or a difference of two, as an estimate over trainings and as one over oracles.

    Both have the same value and the same variance of images; an interval adds what each of the three adds.
    """

    of_trainings: Estimate
    of_oracles: Estimate

    @property
    def value(self) -> float:
        return self.of_trainings.value

    def __sub__(self, other: "Conviction") -> "Conviction":
        return Conviction(self.of_trainings - other.of_trainings, self.of_oracles - other.of_oracles)

    @property
    def half(self) -> float:
        """Half of the 95 % interval for other images, other oracles and, with several trainings, other trainings."""
        images = half_width(*self.of_trainings.variances, self.of_trainings.trainings, self.of_trainings.images)
        oracles = half_width(self.of_oracles.variances[0], 0, self.of_oracles.trainings, self.of_oracles.images)
        return float(np.hypot(images, oracles))

    def interval(self) -> tuple[float, float]:
        return self.value - self.half, self.value + self.half

    def rate_interval(self) -> tuple[float, float]:
        return wilson(self.value, self.half, self.of_trainings.images)


def conviction(judged: pd.DataFrame) -> Conviction:
    """The oracles' mean vote over the pairs of some rows of the results table."""
    votes = [judged.assign(vote=judged[name], training_seed=name) for name in ORACLE_COLUMNS]
    by_oracle = pd.concat(votes)
    return Conviction(mean(judged["oracle"], judged), mean(by_oracle["vote"], by_oracle))


def rates(results: pd.DataFrame) -> pd.DataFrame:
    """How often the oracles see the target in what each method found: all oracles together, then each of them.

    The interval of all is for other images and oracles; that of a single oracle is Wilson's. `majority` counts the
    pairs in which most of the oracles see the target.
    """
    rows: list[tuple[Any, ...]] = []
    for method, judged in measured(results).groupby("method", sort=False):
        whole, pairs = conviction(judged), len(judged)
        seen = float(judged[[*ORACLE_COLUMNS]].to_numpy().sum())
        rows.append((method, "all", pairs, seen, whole.value, *whole.rate_interval(), OF_ALL))
        votes = {"majority": judged["oracle"] > 0.5} | {name: judged[f"oracle_{name}"] for name in ORACLES}
        for name, column in votes.items():
            interval = stats.binomtest(int(column.sum()), pairs).proportion_ci(method="wilson")
            rows.append((method, name, pairs, column.sum(), column.mean(), interval.low, interval.high, WILSON))
    return pd.DataFrame(rows, columns=COLUMNS)


def differences(results: pd.DataFrame) -> pd.DataFrame:
    """The first method against each other one, on the pairs that both found: rates, difference and interval."""
    judged = measured(results).set_index(summary.PAIR)
    subject, *others = results["method"].drop_duplicates()
    rows = []
    for other in others:
        a, b = (judged[judged["method"] == method] for method in (subject, other))
        both = a.index.intersection(b.index)
        if len(both):
            first, second = (conviction(part.loc[both].reset_index()) for part in (a, b))
            difference = first - second
            interval = np.clip(difference.interval(), -1, 1)  # few images have wide intervals
            values = first.value, second.value, difference.value, *map(float, interval)
            rows.append((subject, other, len(both), *values))
    return pd.DataFrame(rows, columns=["a", "b", "pairs", "rate_a", "rate_b", "difference", "low", "high"])


def sentence(results: pd.DataFrame, names: dict[str, str]) -> str:
    """What the oracles think of the first method's counterfactuals, against each of the others; empty if not asked."""
    frame, subject = rates(results), next(iter(names))
    own = frame[(frame["method"] == subject) & (frame["oracle"] == "all")]
    if own.empty:
        return ""
    rate = own.iloc[0]
    return (
        f"{len(ORACLES)} oracles, which no method explains, see the target in {_percent(rate['rate'])} % of what "
        f"{names[subject]} found (95 % interval over images and networks: {_percent(rate['low'])} to "
        f"{_percent(rate['high'])} %){_verdicts(differences(results), names)}."
    )


def _verdicts(frame: pd.DataFrame, names: dict[str, str]) -> str:
    """The end of the sentence: for each verdict, the methods of which it holds; empty without pairs in common."""
    less, more = frame["high"] < 0, frame["low"] > 0
    verdicts = {"less often than in": less, "more often than in": more}
    verdicts |= {"neither less nor more often, as far as this run can tell, than in": ~less & ~more}
    texts = []
    for text, chosen in verdicts.items():
        others = [
            f"{names[row.b]}’s ({_points(row.difference)} points, {_points(row.low)} to {_points(row.high)})"
            for row in frame[chosen].itertuples()
        ]
        texts += [f"{text} {', '.join(others)}"] if others else []
    return f"; on the pairs that both found, {'; '.join(texts)}" if texts else ""


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f}".replace("-", "−")


def _percent(rate: float) -> str:
    return number(100 * rate, 1)


def oracles(run: Run) -> tuple[pd.DataFrame, Table]:
    """How often networks that no method explains see the target class, by method and network."""
    frame = rates(run.results)
    natural = measured(run.references[run.references["kind"] == NATURAL])
    names = {**run.names, NATURAL: "unchanged images, own class"}
    frame = pd.concat([frame, rates(natural.assign(method=NATURAL, training_seed=1))]) if len(natural) else frame
    columns = [Column("method", numeric=False), Column("pairs")]
    columns += [Column(text, group=group) for group in ("all oracles", "most of them") for text in ("%", "95 %")]
    columns += [Column(f"{name.replace('_', ' ')} %") for name in ORACLES]
    rows = []
    for method, part in frame.groupby("method", sort=False):
        cells = [Cell(names[str(method)]), Cell(str(part["pairs"].iloc[0]), value=int(part["pairs"].iloc[0]))]
        for row in part.itertuples():
            cells.append(Cell(_percent(row.rate), value=row.rate))
            if row.oracle not in ORACLES:
                cells.append(Cell(f"{_percent(row.low)}–{_percent(row.high)}", value=row.low))
        rows.append(cells)
    caption = (
        "How often the most probable class is the target, over the pairs that each method found, in %. The interval "
        f"of all oracles is for other images and other oracles (there are {len(ORACLES)}); that of their majority is "
        "Wilson's. The CSV has Wilson's interval of each oracle."
    )
    return frame, Table(caption, columns, rows, title="The oracles", lead=sentence(run.results, run.names))
