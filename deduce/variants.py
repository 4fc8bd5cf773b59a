"""The one grammar of variants, for methods and models alike: `NAME@key=value,key=value`.

A *variant* is a method or a model with settings that differ from the config's. A key without a dot is a setting of the
method or model itself (`jsma@step_size=0.1`, `ddu@width=32`); a key with a dot is a setting of a model that it uses
(`deduce@ddu.width=32`, `density@ddu.width=32`), or of how its images are scored
(`deduce@realism.anogan.reset_step_per_restart=true`). Keys are sorted, and settings that equal the config's are left
out. Equal settings therefore have one name, and are computed once.

`training_seed` is a key of methods too: `deduce@training_seed=2` uses, of every replicated model, the one that was
trained with seed 2.
"""

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

from deduce.errors import InputError
from deduce.models import REGISTRY

VALUE = re.compile(r"[A-Za-z0-9_.+-]+(@\w+=[A-Za-z0-9_.+-]+)?")  # or a model with one changed setting
TRAINING_SEED = "training_seed"
SHARED_SEED = 1  # of the models that all replicates share


def base(variant: str) -> str:
    """The method or model that a variant is of: `jsma@step_size=0.1` is `jsma`."""
    return variant.partition("@")[0]


def searched(variant: str) -> str:
    """The variant whose images these are: the same without the settings of `realism`, which change scores only."""
    name, _, settings = variant.partition("@")
    kept = [text for text in settings.split(",") if not text.startswith("realism.")]
    return "@".join(filter(None, [name, ",".join(kept)]))


def overrides(variant: str) -> dict[str, Any]:
    """The settings in a variant's name: `jsma@step_size=0.1` has {"step_size": 0.1}."""
    settings = {}
    for text in filter(None, variant.partition("@")[2].split(",")):
        key, _, value = text.partition("=")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    return settings


def variant(name: str, settings: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The name of a method or model with these settings; settings that the config has anyway are left out."""
    texts = []
    for key, value in sorted(settings.items()):
        if configured(config, name, key) == value:
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        if not VALUE.fullmatch(text):
            raise InputError(f"'{key}' is {value!r}; allowed: a number, true, false or one word.")
        texts.append(f"{key}={text}")
    return f"{name}@{','.join(texts)}" if texts else name


def configured(config: Mapping[str, Any], name: str, key: str) -> Any:
    """What the config has for a key of a variant of `name`; for a training seed, that of the first replicate."""
    *path, setting = _path(name, key)
    values: Any = config
    for section in path:
        values = values.get(section) or {}
    if setting != TRAINING_SEED or setting in values:
        return values.get(setting)
    shared = path[-1] in REGISTRY and path[-1] not in config["replicated"]
    return SHARED_SEED if shared else config["training_seeds"][0]


def sections(name: str, settings: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The sections of the config that these settings are of, with the settings in place."""
    paths = {key: _path(name, key) for key in settings}
    changed = {first: copy.deepcopy(config.get(first) or {}) for first in (name, *(path[0] for path in paths.values()))}
    for key, value in settings.items():
        *path, setting = paths[key]
        values: Any = changed
        for section in path:
            values = values.setdefault(section, {})
        values[setting] = value
    return changed


def _path(name: str, key: str) -> list[str]:
    """Where the config has a key of a variant of `name`: its sections, from the outermost on, and the setting."""
    return (key if "." in key else f"{name}.{key}").split(".")
