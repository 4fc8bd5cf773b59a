"""The experiment's configuration: completed from config.yaml, and mistakes named before anything runs."""

import copy
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from deduce import datasets, models
from deduce.errors import InputError


def available_methods(root: Path) -> list[str]:
    """The methods that have a rule file."""
    return sorted(path.stem for path in (root / "rules" / "methods").glob("[!_]*.smk"))


def schema(root: Path, methods: Iterable[str]) -> dict[str, Any]:
    """The whole schema: `config.schema.yaml`, each method's fragment, and the names that the registries know."""
    folder = root / "schemas"
    whole = yaml.safe_load((folder / "config.schema.yaml").read_text())
    properties = whole["properties"]
    for method in sorted(methods):
        fragment = folder / "methods" / f"{method}.schema.yaml"
        anything = {"type": "object", "description": f"Settings of the method {method}, as its script reads them."}
        properties[method] = yaml.safe_load(fragment.read_text()) if fragment.exists() else anything
    properties["methods"]["items"] = {"enum": sorted(methods)}
    properties["replicated"]["items"] = {"enum": list(models.REGISTRY)}
    properties["dataset"]["enum"] = [name for name, dataset in datasets.DATASETS.items() if "train" in dataset.splits]
    for section in properties.values():
        if "classifier" in section.get("properties", {}):
            section["properties"]["classifier"]["enum"] = models.classifiers()
    return whole


def defaults(root: Path) -> dict[str, Any]:
    """The default experiment."""
    return yaml.safe_load((root / "config.yaml").read_text())


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
    # The shallowest mistake first: a mistake in a section makes those of its keys superfluous.
    errors = sorted(jsonschema.Draft202012Validator(schema).iter_errors(config), key=lambda error: len(error.path))
    if errors:
        raise InputError(_sentence(errors[0]))
    return config


def check_keys(path: str | Path) -> None:
    """An `InputError` if a section of a file has a key twice: YAML's readers silently keep the last."""

    def walk(node: yaml.Node | None, section: str) -> None:
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                if key.value in seen:
                    where = f"{path}, line {key.start_mark.line + 1}"
                    raise InputError(f"{where}: '{section}{key.value}' is there already; put both under one key.")
                seen.add(key.value)
                walk(value, f"{section}{key.value}.")

    walk(yaml.compose(Path(path).read_text()), "")


def typed(value: Any) -> Any:
    """A list or section from `--config` with numbers where Snakemake leaves text, as in `seeds=[1,2]`."""
    if isinstance(value, dict):
        return {key: typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    return yaml.safe_load(value) if isinstance(value, str) else value


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
            f"config: '{key}' is {error.instance!r}; allowed: {allowed}"
            f"{_suggestion(error.instance, error.validator_value) or '.'}"
        )
    if error.validator == "required":
        return f"config: {error.message} in '{key or 'the config'}'."
    allowed = {
        "type": f"a value of type {error.validator_value}",
        "minimum": f"at least {error.validator_value}",
        "maximum": f"at most {error.validator_value}",
        "exclusiveMinimum": f"more than {error.validator_value}",
        "pattern": f"text that matches {error.validator_value}",
        "minItems": "a list that is not empty",
        "uniqueItems": "a list without repetitions",
    }.get(str(error.validator), f"{error.validator}: {error.validator_value}")
    about = error.schema.get("description", "") if isinstance(error.schema, dict) else ""
    return f"config: '{key}' is {error.instance!r}; allowed: {allowed}.{' ' + about if about else ''}"


def _suggestion(word: Any, known: Iterable[Any]) -> str:
    close = difflib.get_close_matches(str(word), [str(name) for name in known], n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
