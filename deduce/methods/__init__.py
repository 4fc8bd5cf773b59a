"""The counterfactual methods, one module each, and the work around a search that is the same for every method."""

import time
from importlib import import_module
from typing import Any

import numpy as np
import torch

from deduce import provenance
from deduce.errors import InputError
from deduce.pairs import TIMED
from deduce.search import Method, probabilities
from deduce.shards import Pairs, Shard, merge


def by_name(name: str) -> type[Method]:
    """The method's class: the `Method` in `deduce/methods/NAME.py` whose name is NAME."""
    module = import_module(f"{__name__}.{name}")
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Method) and getattr(value, "name", None) == name:
            return value
    raise InputError(f"deduce/methods/{name}.py has no Method whose name is {name!r}.")


def answer(
    method: Method, arguments: dict[str, Any], pairs: Pairs, source: str, models: dict[str, str], measured: str = ""
) -> Shard:
    """The shard that answers `pairs`. Its metadata says how it was made, and nothing that differs between jobs.

    arguments: what `method.prepare` returned. models: the names of the models by role. measured: "" for no times,
    `TIMED` to search and time each pair by itself, anything else to time all pairs together.
    """
    metadata = {
        "method": method.name,
        "display_name": method.display_name,
        "settings": method.settings(),
        "models": models,
        "target_confidence": getattr(method, "target_confidence", None),  # None: no confidence is prescribed
        "classes": int(pairs.classes),
        "versions": provenance.versions("torch", "numpy"),
        "source": source,
    }
    if measured == TIMED:
        torch.set_num_threads(1)  # one image has too little work for more threads, whose waiting would be measured too
    if measured:
        metadata["machine"] = machine()
        _answered(method, arguments, pairs.rows([0]), metadata)  # a warm-up: some work happens once per process
    if measured == TIMED:
        return merge([_answered(method, arguments, pairs.rows([row]), metadata) for row in range(len(pairs))], pairs)
    return _answered(method, arguments, pairs, metadata)


def _answered(method: Method, arguments: dict[str, Any], pairs: Pairs, metadata: dict[str, Any]) -> Shard:
    """The shard of one batch of pairs; it has the seconds per pair if the metadata names a machine."""
    start = time.perf_counter()
    inputs = {"images": pairs.original, "targets": pairs.target}
    result = method.generate(**arguments, **inputs, allow_reached=True, progress=True)
    seconds = (time.perf_counter() - start) / max(len(pairs), 1)
    arrays = {name: value.numpy() for name, value in vars(result).items() if value is not None}
    if "machine" in metadata:
        arrays["seconds"] = np.full(len(pairs), seconds)
    if len(pairs):
        before = probabilities(arguments["classifier"], torch.as_tensor(pairs.original)).numpy()
        arrays["confidence_before"] = before[np.arange(len(pairs)), pairs.target]
    return Shard(pairs.image, pairs.label, pairs.target, **arrays, metadata=metadata)


def machine() -> str:
    """What a time was measured on, in a few words."""
    processor = provenance.machine(torch.get_num_threads())
    return f"{torch.cuda.get_device_name()}, {processor}" if torch.cuda.is_available() else processor
