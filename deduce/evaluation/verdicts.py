"""Verdicts on claims, from estimates and their intervals.

A claim *holds* if the whole interval of its estimate lies on the claimed side of a threshold, *does not hold* if all of
it lies on the other side, and is *undecided* if the threshold is inside. It is also undecided if it compares methods
that explain different networks and there is one training of a network: another training could decide otherwise. It is
*not tested* if the run did not measure what the claim is about, or is too small.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from deduce.evaluation.intervals import COVERAGE, Estimate
from deduce.evaluation.run import Run

HOLDS, FAILS, UNDECIDED, UNTESTED = "holds", "does not hold", "undecided", "not tested"
RESULTS = (HOLDS, FAILS, UNDECIDED, UNTESTED)
LISTED = 6  # parts of a claim that its text lists

Interval = Callable[[float], tuple[float, float]]  # its ends, by the coverage that is asked for
Side = Callable[[float, float], bool]  # the claimed side of a threshold: operator.lt or gt


class Part(NamedTuple):
    """One comparison that a claim consists of."""

    name: str
    value: float
    interval: Interval
    methods: Sequence[str] = ()  # the methods that it compares
    trainings: int = 1  # behind the value


class Finding(NamedTuple):
    result: str
    number: str  # what decides it, in words
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    threshold: float = math.nan


def untested(reason: str) -> Finding:
    return Finding(UNTESTED, reason)


def part(name: str, estimate: Estimate, *methods: str, interval: Interval | None = None) -> Part:
    return Part(name, estimate.value, interval or estimate.interval, methods, estimate.trainings)


def decide(
    run: Run,
    parts: Sequence[Part],
    side: Side,
    threshold: float,
    some: bool = False,
    style: str = "+.2f",
    unit: str = "",
) -> Finding:
    """The verdict on a claim all of whose parts lie on the claimed side, or `some` part of it.

    The side that a single part decides is tested at the level of all parts together (Bonferroni); on the other side,
    every part has to agree anyway.
    """
    if not parts or any(math.isnan(one.value) for one in parts):
        return untested("what the claim is about was not measured, or on no common pair")
    judged = [_judge(one, side, threshold, len(parts) if side(one.value, threshold) == some else 1) for one in parts]
    if any(math.isnan(low) for _, low, _ in judged):
        return untested("there are too few images for an interval")
    networks = [one_training(run, one.methods, one.trainings) for one in parts]
    alone = [state for state, _, _ in judged]
    states = [UNDECIDED if network else state for network, state in zip(networks, alone, strict=True)]
    result, of_these = _together(states, some), _together(alone, some)
    margins = [
        (one.value - threshold) / max((high - low) / 2, 1e-300) * (1 if side(1, 0) else -1)
        for one, (_, low, high) in zip(parts, judged, strict=True)
    ]
    order = sorted(range(len(parts)), key=lambda place: -margins[place] if some else margins[place])
    deciding = next(place for place in order if states[place] == result)
    listed = order[:LISTED] if len(parts) > LISTED else range(len(parts))
    texts = [written(parts[place], *judged[place][1:], style) for place in listed]
    text = "; ".join(texts) + unit
    if rest := len(parts) - len(texts):
        text += f"; and {rest} more comparisons, farther from the threshold"
    if result == UNDECIDED and any(networks):
        text += only_these(of_these)
    _, low, high = judged[deciding]
    return Finding(result, text, parts[deciding].value, low, high, threshold)


def _judge(one: Part, side: Side, threshold: float, parts: int) -> tuple[str, float, float]:
    """The verdict on one part alone, and its interval."""
    low, high = one.interval(1 - (1 - COVERAGE) / parts)
    if side(low, threshold) and side(high, threshold):
        return HOLDS, low, high
    return FAILS if side(threshold, low) and side(threshold, high) else UNDECIDED, low, high


def _together(states: Sequence[str], some: bool) -> str:
    order = (HOLDS, UNDECIDED, FAILS) if some else (FAILS, UNDECIDED, HOLDS)
    return next(state for state in order if state in states)


def one_training(run: Run, methods: Sequence[str], trainings: int) -> bool:
    """Whether methods are compared that explain different networks, with one training of a network."""
    networks = {run.classifier(method) for method in methods}
    return len(networks) > 1 and min(trainings, *map(run.trainings, methods)) < 2


def written(one: Part, low: float, high: float, style: str) -> str:
    value, low_text, high_text = (format(number, style).replace("-", "−") for number in (one.value, low, high))
    return f"{one.name} {value} ({low_text} to {high_text})".strip()


def only_these(result: str) -> str:
    """What one training of each network shows all the same."""
    return f". One training of each network decides nothing about the methods; for these networks: {result}"
