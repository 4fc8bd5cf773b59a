"""The experiment's configuration: completed from config.yaml, and mistakes named before anything runs."""

import copy
import difflib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from deduce import datasets, models
from deduce.config_files import LOADER
from deduce.errors import InputError


def available_methods(root: Path) -> list[str]:
    """The methods that have a rule file."""
    return sorted(path.stem for path in (root / "rules" / "methods").glob("[!_]*.smk"))


# A whole number is not `3.0`, and no number is NaN or infinite.
TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
    {
        "integer": lambda checker, value: isinstance(value, int) and not isinstance(value, bool),
        "number": lambda checker, value: (
            not isinstance(value, bool)
            and (isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)))
        ),
    }
)
Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=TYPES)
LARGEST = 10**9  # of any number that the schema does not limit: more is a slip


def schema(root: Path, methods: Iterable[str], pixels: int | None = None) -> dict[str, Any]:
    """The whole schema: `config.schema.yaml`, each method's fragment, and the names that the registries know.

    pixels: of the dataset's images, of which a step cannot change more.
    """
    folder = root / "schemas"
    whole = yaml.load((folder / "config.schema.yaml").read_text(), LOADER)
    properties = whole["properties"]
    for method in sorted(methods):
        fragment = folder / "methods" / f"{method}.schema.yaml"
        anything = {"type": "object", "description": f"Settings of the method {method}, as its script reads them."}
        properties[method] = yaml.load(fragment.read_text(), LOADER) if fragment.exists() else anything
    properties["methods"]["items"] = {"enum": sorted(methods)}
    properties["replicated"]["items"] = {"enum": list(models.REGISTRY)}
    properties["dataset"]["enum"] = [name for name, dataset in datasets.DATASETS.items() if "train" in dataset.splits]
    for section in properties.values():
        if "classifier" in section.get("properties", {}):
            section["properties"]["classifier"]["enum"] = models.classifiers()
        if pixels and "pixels_per_step" in section.get("properties", {}):
            section["properties"]["pixels_per_step"]["maximum"] = pixels
    return whole


def defaults(root: Path) -> dict[str, Any]:
    """The default experiment."""
    return yaml.load((root / "config.yaml").read_text(), LOADER)


def complete(config: Any, default: Any) -> Any:
    """`config` with what only `default` has, section by section, in the order of `default`."""
    if not (isinstance(config, dict) and isinstance(default, dict)):
        return copy.deepcopy(config)
    merged = {
        key: complete(config[key], value) if key in config else copy.deepcopy(value) for key, value in default.items()
    }
    return merged | {key: copy.deepcopy(value) for key, value in config.items() if key not in default}


def checked(config: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """`config`, or an `InputError` that names its first mistake."""
    _check_sizes(config, "")
    # The shallowest mistake first: a mistake in a section makes those of its keys superfluous.
    errors = sorted(Validator(schema).iter_errors(config), key=lambda error: len(error.path))
    if errors:
        raise InputError(_sentence(errors[0]))
    return config


def _check_sizes(value: Any, key: str) -> None:
    """An `InputError` if a number or a text anywhere in a config is absurdly large, or a key is not a line of text."""
    if isinstance(value, dict):
        for name, part in value.items():
            if not isinstance(name, str):
                section = f" in '{key}'" if key else ""
                raise InputError(f"config: the key {name!r}{section} is not text: write it in quotes.")
            if len(name) > 200 or not name.isprintable():
                raise InputError(f"config: the key {_short(name)} is not a line of at most 200 characters.")
            _check_sizes(part, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for position, part in enumerate(value):
            _check_sizes(part, f"{key}[{position}]")
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise InputError(f"config: '{key}' is {_short(value)}; allowed: a number of at most {LARGEST:,}.")
    elif isinstance(value, str) and len(value) > 10_000:
        raise InputError(f"config: '{key}' is a text of {len(value)} characters; allowed: at most 10,000.")


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not write out a number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 200 else f"{text[:200]}…"


def typed(value: Any) -> Any:
    """A list or section from `--config` with numbers where Snakemake leaves text, as in `seeds=[1,2]`."""
    if isinstance(value, dict):
        return {key: typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    try:
        return yaml.safe_load(value) if isinstance(value, str) else value
    except (yaml.YAMLError, ValueError):
        return value  # it is text; the schema says whether text will do


def _sentence(error: jsonschema.ValidationError) -> str:
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        unknown = next(name for name in error.instance if name not in known)
        guess = _suggestion(unknown, known) or f"; known keys: {', '.join(known)}."
        return f"config: unknown key '{key + '.' if key else ''}{unknown}'{guess}"
    if error.validator == "enum":
        allowed = ", ".join(str(value) for value in error.validator_value)
        return (
            f"config: '{key}' is {_short(error.instance)}; allowed: {allowed}"
            f"{_suggestion(error.instance, error.validator_value) or '.'}"
        )
    if error.validator == "required":
        return f"config: {error.message} in '{key or 'the config'}'."
    allowed = {
        "minimum": f"at least {error.validator_value}",
        "maximum": f"at most {error.validator_value}",
        "exclusiveMaximum": f"less than {error.validator_value}",
        "maxLength": f"at most {error.validator_value} characters",
        "maxItems": f"at most {error.validator_value} values",
        "minProperties": "at least one key",
        "exclusiveMinimum": f"more than {error.validator_value}",
        "pattern": f"text that matches {error.validator_value}",
        "minItems": f"a list of at least {error.validator_value}"
        if error.validator_value != 1
        else "a list that is not empty",
        "uniqueItems": "a list without repetitions",
    }.get(str(error.validator), f"{error.validator}: {error.validator_value}")
    if error.validator == "type":
        allowed = _type(error.validator_value, error.instance)
    about = error.schema.get("description", "") if isinstance(error.schema, dict) else ""
    return f"config: '{key}' is {_short(error.instance)}; allowed: {allowed}.{' ' + about if about else ''}"


def _type(allowed: Any, value: Any) -> str:
    names = allowed if isinstance(allowed, str) else " or ".join(allowed)
    return f"a value of type {names}" + (" that is finite" if isinstance(value, float) and "number" in names else "")


def _suggestion(word: Any, known: Iterable[Any]) -> str:
    close = difflib.get_close_matches(str(word), [str(name) for name in known], n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
