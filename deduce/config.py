"""The experiment's configuration: defaults filled in, and mistakes named before anything runs."""

import copy
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from deduce.errors import InputError


def schema(folder: str | Path, methods: Iterable[str]) -> dict[str, Any]:
    """The whole schema: `config.schema.yaml`, and each method's section by its own fragment, if it has one."""
    folder = Path(folder)
    whole = yaml.safe_load((folder / "config.schema.yaml").read_text())
    for method in sorted(methods):
        fragment = folder / "methods" / f"{method}.schema.yaml"
        anything = {"type": "object", "description": f"Settings of the method {method}, as its script reads them."}
        whole["properties"][method] = yaml.safe_load(fragment.read_text()) if fragment.exists() else anything
    whole["properties"]["methods"]["items"] = {"enum": sorted(methods)}
    return whole


def checked(config: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A copy of `config` with the schema's defaults where it is silent; an `InputError` names the first mistake."""
    config = _with_defaults(config, schema)
    # The shallowest mistake first: what it says about a section makes what is said of its keys superfluous.
    errors = sorted(jsonschema.Draft202012Validator(schema).iter_errors(config), key=lambda error: len(error.path))
    if errors:
        raise InputError(_sentence(errors[0]))
    return config


def check_keys(path: str | Path) -> None:
    """An `InputError` if a section of a file has a key twice: YAML's readers keep the last, and say nothing."""

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


def typed(given: Any) -> Any:
    """A list or section that `--config` was given, with numbers where Snakemake leaves text, as in `seeds=[1,2]`."""
    if isinstance(given, dict):
        return {key: typed(value) for key, value in given.items()}
    if isinstance(given, list):
        return [typed(value) for value in given]
    return yaml.safe_load(given) if isinstance(given, str) else given


def in_order(config: Any, default: Any) -> Any:
    """`config` with its keys in the order of `default`, new ones last: overlays that Snakemake merges disturb it."""
    if not (isinstance(config, dict) and isinstance(default, dict)):
        return config
    keys = [*(key for key in default if key in config), *(key for key in config if key not in default)]
    return {key: in_order(config[key], default.get(key)) for key in keys}


def defaults(schema: dict[str, Any]) -> dict[str, Any]:
    return _with_defaults({}, schema)


def _with_defaults(config: Any, schema: dict[str, Any]) -> Any:
    if not isinstance(config, dict):
        return config
    filled = dict(config)
    for key, part in schema.get("properties", {}).items():
        if "properties" in part:
            filled[key] = _with_defaults(filled.get(key, {}), part)
        elif "default" in part:
            filled.setdefault(key, copy.deepcopy(part["default"]))
    return filled


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


def documentation(schema: dict[str, Any]) -> str:
    """The reference page of the configuration, one row per key, in Markdown."""
    lines = ["| key | default | what it is |", "|---|---|---|"]

    def add(properties: dict[str, Any], prefix: str) -> None:
        for key, part in properties.items():
            if "properties" in part:
                lines.append(f"| **`{prefix}{key}`** | | {part.get('description', '')} |")
                add(part["properties"], f"{prefix}{key}.")
            else:
                default = yaml.safe_dump(part.get("default"), default_flow_style=True).removesuffix("...\n").strip()
                lines.append(f"| `{prefix}{key}` | `{default}` | {part.get('description', '')}{_range(part)} |")

    add(schema["properties"], "")
    return "\n".join(lines) + "\n"


def _range(part: dict[str, Any]) -> str:
    if "enum" in part:
        return " One of " + ", ".join(f"`{value}`" for value in part["enum"]) + "."
    return ""


PAGE = """# Configuration

`config.yaml` is the default experiment; each file in `config/` changes only the keys that it names
(`snakemake --configfile config/paper.yaml`), and single keys can be changed on the command line
(`--config images_per_seed=5 'vlk={max_iterations: 500}'`). Everything is checked before the workflow starts. This page
is made from the schema by `make docs`.

"""

if __name__ == "__main__":
    root = Path(__file__).parent.parent
    print(
        PAGE + documentation(schema(root / "schemas", [p.stem for p in (root / "rules/methods").glob("*.smk")])), end=""
    )
