"""What a config declares beside its main experiment: sweeps over settings, and comparisons of two implementations.

A *sweep* is one method with some settings varied, of its own or of the models that it uses (docs/sweeps.md). A
*comparison* asks two methods that should agree the same few pairs.
"""

import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from deduce.config import checked
from deduce.errors import InputError
from deduce.evaluation.metrics import METRICS
from deduce.pairs import SAMPLE, VALIDATION
from deduce.variants import TRAINING_SEED, searched, sections, variant

MOST_POINTS = 1000  # of a sweep
OWN = "own"  # in place of sweeps to compare on: every point over the pairs that it found
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class Point:
    """One setting of a sweep."""

    label: str  # as people read it
    variant: str  # as paths have it
    settings: dict[str, Any]  # all that the sweep sets here, also where the config says the same
    replicates: dict[str, int] = field(default_factory=dict)  # the variant with each training, and its training seed


@dataclass(frozen=True)
class Sweep:
    name: str
    method: str
    on: list[str]  # test sets by their number, or VALIDATION
    points: list[Point]
    compare_on: list[str]  # the sweeps whose points must all have found a pair; [OWN]: each point its own
    leave_out_failing_above: float  # a point with a larger share of failures is excluded from distances and the mask
    reference: str  # label of the point that the others are tested against
    description: str = ""
    scores: list[str] = field(default_factory=list)  # metrics by which the points' images are scored

    @property
    def variants(self) -> list[str]:
        return [variant for point in self.points for variant in point.replicates]

    def artifacts(self) -> list[str]:
        """The artefacts that the sweep is evaluated from."""
        shards = dict.fromkeys(f"counterfactuals/{searched(variant)}" for variant in self.variants)
        scores = [f"realism/{variant}" for variant in self.variants if self.scores]
        return [f"{folder}/{seed}.npz" for folder in ("pairs", *shards, *scores) for seed in self.on]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Sweep":
        return cls(**values | {"points": [Point(**point) for point in values["points"]]})


@dataclass(frozen=True)
class Comparison:
    name: str
    methods: list[str]  # the reference and the implementation that should agree with it
    pairs: int  # spread evenly over the first test set
    description: str = ""

    @property
    def pair_set(self) -> str:
        return f"{SAMPLE}{self.pairs}"

    def artifacts(self) -> list[str]:
        """The artefacts that the comparison is evaluated from."""
        shards = [f"counterfactuals/{method}/{self.pair_set}.npz" for method in self.methods]
        return [f"pairs/{self.pair_set}.npz", *shards]


def declared_sweeps(config: Mapping[str, Any]) -> dict[str, Sweep]:
    """The sweeps of a config by name, with all their points; an `InputError` names the sweep and what is wrong."""
    sweeps = {}
    for name, section in (config.get("sweeps") or {}).items():
        if section is None:  # how an overlay leaves out a sweep of the default config
            continue
        _check_name("sweep", name)
        try:
            sweeps[name] = _sweep(name, section, config)
        except InputError as error:
            raise InputError(f"config: sweep '{name}': {error}") from None
    for sweep in sweeps.values():
        for other in sweep.compare_on:
            if other != OWN and (other not in sweeps or sweeps[other].on != sweep.on):
                problem = f"'compare_on' names '{other}', which is not a sweep on the same test sets."
                raise InputError(f"config: sweep '{sweep.name}': {problem}")
    return sweeps


def declared_comparisons(config: Mapping[str, Any]) -> dict[str, Comparison]:
    """The comparisons of a config by name."""
    comparisons = {}
    for name, section in (config.get("comparisons") or {}).items():
        if section is not None:
            _check_name("comparison", name)
            comparisons[name] = Comparison(name, **section)
    return comparisons


def check(sweep: Sweep, config: Mapping[str, Any], schema: Mapping[str, Any], models: set[str]) -> None:
    """Fails unless the schema allows every point's settings; `models` are the models that the method uses."""
    if unknown := set(sweep.scores) - (scores := {name for name, metric in METRICS.items() if metric.scorer}):
        known = ", ".join(sorted(scores))
        raise InputError(f"config: sweep '{sweep.name}': 'scores' names '{min(unknown)}'; known: {known}.")
    models = {*models, *(["realism"] if sweep.scores else [])}  # how images are scored can be varied too
    for point in sweep.points:
        where = f"config: sweep '{sweep.name}', '{point.label}': "
        check_settings(where, sweep.method, point.settings, config, schema, models)


def check_settings(
    where: str,
    method: str,
    settings: Mapping[str, Any],
    config: Mapping[str, Any],
    schema: Mapping[str, Any],
    models: set[str],
) -> None:
    """Fails, with a sentence that starts with `where`, unless the schema allows these settings of a method."""
    for key in settings:
        if "." in key and key.partition(".")[0] not in models:
            known = f"of models only the settings of {', '.join(sorted(models))}" if models else "it uses no model"
            raise InputError(f"{where}'{key}' cannot be varied for {method}: {known}.")
    changed = sections(method, settings, config)
    parts = {"properties": {name: schema["properties"][name] for name in changed}}
    try:
        checked(changed, parts)
    except InputError as error:
        raise InputError(where + str(error).removeprefix("config: ")) from None


def _check_name(kind: str, name: str) -> None:
    if not NAME.fullmatch(name):
        rule = "at most 64 small letters, digits and underscores, and begins with a letter"
        raise InputError(f"config: {kind} '{str(name)[:100]}': the name of a {kind} has {rule}.")


def _sweep(name: str, section: Mapping[str, Any], config: Mapping[str, Any]) -> Sweep:
    method = section["method"]
    curve = name in config.get("conviction", {}).get("sweeps", [])  # has the intervals of other trainings too
    seeds = config.get("training_seeds", [1])[: None if curve else 1]
    axes = [_axis(key, values) for key, values in section["vary"].items() if values is not None]
    points: list[Point] = []
    if (count := math.prod(map(len, axes))) > MOST_POINTS:
        raise InputError(f"has {count} points; allowed: at most {MOST_POINTS}.")
    for choice in itertools.product(*axes):
        keys = [key for _, settings in choice for key in settings]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise InputError(f"'{min(twice)}' is varied twice.")
        settings = dict(section.get("settings", {}))
        for _, varied in choice:
            settings |= varied
        point = variant(method, settings, config)
        further = {variant(method, {TRAINING_SEED: seed} | settings, config): seed for seed in seeds[1:]}
        points.append(Point(", ".join(label for label, _ in choice), point, settings, {point: seeds[0]} | further))
    if not points or not axes:
        raise InputError("has no points: 'vary' needs at least one value of each of its keys.")
    labels = [point.label for point in points]
    reference = section.get("reference", labels[0])
    if reference not in labels:
        raise InputError(f"'reference' is {reference!r}, which is none of its points: {'; '.join(labels)}.")
    compare_on = section.get("compare_on", [name])
    return Sweep(
        name=name,
        method=method,
        on=[str(seed) for seed in section.get("on", [VALIDATION])],
        points=points,
        compare_on=[OWN] if compare_on == OWN else compare_on,
        leave_out_failing_above=section.get("leave_out_failing_above", 1.0),
        reference=reference,
        description=section.get("description", f"{name}: {method} with {', '.join(section['vary'])} varied."),
        scores=section.get("scores", []),
    )


def _axis(key: str, values: Any) -> list[tuple[str, dict[str, Any]]]:
    """A list varies the setting that it is named after; a map has labels, each with the settings that it stands for."""
    if isinstance(values, list):
        return [(f"{key} = {value if isinstance(value, str) else json.dumps(value)}", {key: value}) for value in values]
    return [(label, dict(settings)) for label, settings in values.items() if settings is not None]
