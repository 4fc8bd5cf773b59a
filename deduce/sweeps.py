"""Sweeps: a method with some of its settings varied, as the config declares it (docs/sweeps.md).

A *variant* is a method with settings that differ from the config's. It goes by the name `METHOD@key=value,key=value`,
keys sorted, wherever a method's name stands in a path; the method as configured goes by its own name, so that points
which are the same share their results, whatever sweep they are of.
"""

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deduce.config import checked
from deduce.errors import InputError

VALIDATION = "validation"  # in place of a test set's number: the batch of validation images that the paper tuned on
OWN = "own"  # in place of sweeps to compare on: every point over the pairs that it found
NAME = re.compile(r"[a-z][a-z0-9_]*")
VALUE = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True)
class Point:
    """One setting of a sweep."""

    label: str  # as people read it
    variant: str  # as paths have it
    settings: dict[str, Any]  # all that the sweep sets here, also where the config says the same


@dataclass(frozen=True)
class Sweep:
    name: str
    method: str
    on: list[str]  # test sets by their number, or VALIDATION
    points: list[Point]
    compare_on: list[str]  # the sweeps whose points must all have found a pair; [OWN]: each point its own
    leave_out_failing_above: float  # share of failures above which a point gets no distances and no say in the mask
    reference: str  # label of the point that the others are tested against
    description: str = ""

    def artifacts(self) -> list[str]:
        """What the sweep is evaluated from, by path in a folder of artefacts."""
        pairs = [f"pairs/{seed}.npz" for seed in self.on]
        return pairs + [f"counterfactuals/{point.variant}/{seed}.npz" for point in self.points for seed in self.on]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Sweep":
        return cls(**values | {"points": [Point(**point) for point in values["points"]]})


def variant(method: str, settings: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The name of a method with these settings; those that the config has anyway are no part of it."""
    changed = {key: value for key, value in settings.items() if _configured(config, method, key) != value}
    texts = []
    for key in sorted(changed):
        text = changed[key] if isinstance(changed[key], str) else json.dumps(changed[key])
        if not VALUE.fullmatch(text):
            raise InputError(f"'{key}' is {changed[key]!r}; allowed: a number, true, false or one word.")
        texts.append(f"{key}={text}")
    return "@".join([method, ",".join(texts)] if texts else [method])


def overrides(variant: str) -> dict[str, Any]:
    """The settings in a variant's name: `jsma@step_size=0.1` is {"step_size": 0.1}."""
    settings = {}
    for text in filter(None, variant.partition("@")[2].split(",")):
        key, _, value = text.partition("=")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    return settings


def applied(method: str, settings: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of the config that these settings are of, with them in place; a dot names a model's section."""
    sections = {method: dict(config.get(method, {}))}
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section or method, dict(config.get(section, {})))[name] = value
    return sections


def declared(config: Mapping[str, Any]) -> dict[str, Sweep]:
    """The sweeps of a config by name, with all their points; an `InputError` names the sweep and what is wrong."""
    sweeps = {}
    for name, section in (config.get("sweeps") or {}).items():
        if section is None:  # how an overlay leaves out what the default config has
            continue
        if not NAME.fullmatch(name):
            raise InputError(f"config: the sweep '{name}' needs a name of small letters, digits and underscores.")
        try:
            sweeps[name] = _sweep(name, section, config)
        except InputError as error:
            raise InputError(f"config: sweep '{name}': {error}") from None
    for sweep in sweeps.values():
        for other in sweep.compare_on:
            if other != OWN and (other not in sweeps or sweeps[other].on != sweep.on):
                problem = f"'compare_on' names '{other}', which is no sweep on the same test sets."
                raise InputError(f"config: sweep '{sweep.name}': {problem}")
    return sweeps


def check(sweep: Sweep, config: Mapping[str, Any], schema: Mapping[str, Any], model_settings: set[str]) -> None:
    """Fails unless every point's settings are in the schema, and those of models among the ones that can be varied."""
    for point in sweep.points:
        where = f"config: sweep '{sweep.name}', '{point.label}': "
        for key in point.settings:
            if "." in key and key not in model_settings:
                raise InputError(
                    f"{where}'{key}' cannot be varied; of models only: {', '.join(sorted(model_settings))}."
                )
        sections = applied(sweep.method, point.settings, config)
        parts = {"properties": {name: schema["properties"][name] for name in sections}}
        try:
            checked(sections, parts)
        except InputError as error:
            raise InputError(where + str(error).removeprefix("config: ")) from None


def _configured(config: Mapping[str, Any], method: str, key: str) -> Any:
    section, _, name = key.rpartition(".")
    return config.get(section or method, {}).get(name)


def _sweep(name: str, section: Mapping[str, Any], config: Mapping[str, Any]) -> Sweep:
    method = section["method"]
    axes = [_axis(key, values) for key, values in section["vary"].items() if values is not None]
    points = []
    for choice in itertools.product(*axes):
        keys = [key for _, settings in choice for key in settings]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise InputError(f"'{min(twice)}' is varied twice.")
        settings = dict(section.get("settings", {}))
        for _, own in choice:
            settings |= own
        points.append(Point(", ".join(label for label, _ in choice), variant(method, settings, config), settings))
    if not points:
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
        description=section.get("description", ""),
    )


def _axis(key: str, values: Any) -> list[tuple[str, dict[str, Any]]]:
    """A list varies the setting that it is named after; a map has labels, each with the settings that it stands for."""
    if isinstance(values, list):
        return [(f"{key} = {value if isinstance(value, str) else json.dumps(value)}", {key: value}) for value in values]
    return [(label, dict(settings)) for label, settings in values.items() if settings is not None]
