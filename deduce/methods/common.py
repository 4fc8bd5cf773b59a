"""What every method's job does around its search: the shard that answers a pair file, and times pair by pair."""

import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from deduce import provenance
from deduce.fold import device_of
from deduce.search import Method, Result
from deduce.shards import Pairs, Shard

Generate = Callable[..., Result]  # generate(images, targets, progress=...): a method with its models


def answered(
    method: Method, generate: Generate, pairs: Pairs, source: str, classifier: nn.Module | None = None
) -> Shard:
    """The shard that answers `pairs`. Its metadata says how it was made, and nothing that differs between jobs.

    With the classifier that the method explains, also how sure it is of each target at the original.
    """
    result = generate(pairs.original, pairs.target, progress=True)
    arrays = {name: value.numpy() for name, value in vars(result).items() if value is not None}
    if classifier is not None:
        arrays["confidence_before"] = _confidence(classifier, pairs)
    metadata = {
        "method": method.name,
        "display_name": method.display_name,
        "settings": method.settings(),
        "target_confidence": method.target_confidence,
        "classes": int(pairs.classes),
        "versions": provenance.versions("torch", "numpy"),
        "source": source,
    }
    return Shard(pairs.image, pairs.label, pairs.target, **arrays, metadata=metadata)


@torch.no_grad()
def _confidence(classifier: nn.Module, pairs: Pairs) -> np.ndarray:
    """The classifier's probability of each pair's target at its original, (n,) float32."""
    parts = [np.zeros(0, np.float32)]
    for start in range(0, len(pairs), 100):
        rows = pairs.rows(slice(start, start + 100))
        images = torch.as_tensor(rows.original, device=device_of(classifier))
        target = torch.as_tensor(rows.target, device=images.device).long()
        parts.append(classifier(images).softmax(1).gather(1, target[:, None]).squeeze(1).float().cpu().numpy())
    return np.concatenate(parts)


def timed(method: Method, generate: Generate, pairs: Pairs, seed: int) -> pd.DataFrame:
    """Seconds per counterfactual in a batch of one (table 2), one row per pair, on one thread.

    More threads have little to share in one image, and how they wait for each other would be measured too.
    """
    torch.set_num_threads(1)
    rows = []
    for number in [0, *range(len(pairs))]:  # the first twice: its first run includes what happens once per process
        pair = pairs.rows([number])
        start = time.perf_counter()
        result = generate(pair.original, pair.target)
        seconds = time.perf_counter() - start
        rows.append(
            {
                "method": method.name,
                "seed": seed,
                "image": int(pair.image[0]),
                "target": int(pair.target[0]),
                "found": bool(result.found[0]),
                "iterations": int(result.iterations[0]),
                "seconds": seconds,
                "machine": machine(),
            }
        )
    return pd.DataFrame(rows[1:])


def machine() -> str:
    """What a time was measured on, in a few words."""
    threads = torch.get_num_threads()
    cpu = f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"
    return f"{torch.cuda.get_device_name()}, {cpu}" if torch.cuda.is_available() else cpu


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
