"""The pictures of the gallery: every pair's original, counterfactuals and changes, packed small for a browser.

There is one packet per test set: a deflated buffer of a little-endian uint32 (the length of the header), a JSON header
(the pairs, their numbers, the place of each array) and the arrays. Pixels are rounded to 8 bits, an error too small to
be seen; numbers are those of the results table.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from deduce.evaluation.metrics import METRICS
from deduce.evaluation.run import Run
from deduce.shards import Pairs, Shard

LIMIT = 11_000_000  # characters of pictures, so that the page stays below 15 MB


@dataclass(frozen=True)
class TestSet:
    """One test set: its pairs, the shard of each method, and its rows of the results table."""

    seed: int
    pairs: Pairs
    shards: dict[str, Shard]
    results: pd.DataFrame


@dataclass(frozen=True)
class Packet:
    seed: int
    images: int  # how many of the test set's images it holds
    data: str  # base64


def test_sets(run: Run) -> Iterator[TestSet]:
    for seed in map(str, run.experiment["seeds"]):
        shards = {method: run.shard(method, seed) for method in run.methods}
        results = run.first_training[run.first_training["seed"] == int(seed)]
        yield TestSet(int(seed), run.pairs(seed), shards, results)


def packets(sets: Iterable[TestSet], limit: int = LIMIT) -> list[Packet]:
    """As many test sets as fit into `limit` characters, in order; of the last one, as many images as fit."""
    packed: list[Packet] = []
    for test_set in sets:
        room = limit - sum(len(packet.data) for packet in packed)
        images = test_set.results["image"].nunique()
        packet = _packet(test_set, images)
        while len(packet.data) > room and packet.images:
            packet = _packet(test_set, min(packet.images - 1, int(0.9 * packet.images * room / len(packet.data))))
        if packet.images:
            packed.append(packet)
        if packet.images < images:
            break
    return packed


def measured(results: pd.DataFrame, *others: str) -> list[str]:
    """The metrics, and other columns before them, of which the results table has a number."""
    return [name for name in (*others, *METRICS) if name in results and results[name].notna().any()]


def quantised(pixels: np.ndarray) -> np.ndarray:
    """Pixels in [0, 1] as uint8; imported results may lie outside and are clipped."""
    return np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)


def _packet(test_set: TestSet, count: int) -> Packet:
    """The first `count` images of a test set with all of their targets."""
    pairs, images = test_set.pairs, np.unique(test_set.pairs.image)[:count]
    order = np.lexsort((pairs.target, pairs.image))
    rows = order[np.isin(pairs.image[order], images)]
    _, first, position = np.unique(pairs.image[rows], return_index=True, return_inverse=True)
    results = test_set.results[test_set.results["image"].isin(images)].sort_values(["image", "target"])

    arrays, methods = {"originals": quantised(pairs.original[rows[first]])}, {}
    for method, shard in test_set.shards.items():
        methods[method] = _numbers(results[results["method"] == method])
        # Differences modulo 256: zero where nothing changed, which packs to almost nothing.
        arrays[f"{method}/delta"] = quantised(shard.counterfactual[rows]) - quantised(pairs.original[rows])
        if shard.path_offset is not None:
            arrays |= {f"{method}/{name}": array for name, array in _path(shard, rows).items()}
    header = {"seed": test_set.seed, "shape": list(pairs.original.shape[1:]), "images": images.tolist()}
    header |= {"labels": pairs.label[rows[first]].tolist(), "image": position.tolist()}
    header |= {"target": pairs.target[rows].tolist(), "methods": methods}
    return Packet(test_set.seed, len(images), _packed(header, arrays))


def _numbers(results: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns of the results table; None where there is no number."""
    names = measured(results, "confidence_before", "confidence", "iterations")
    columns = {name: [None if pd.isna(value) else float(value) for value in results[name]] for name in names}
    return {"found": [int(found) for found in results["found"]]} | columns


def _path(shard: Shard, rows: np.ndarray) -> dict[str, np.ndarray]:
    """The changes of the given rows, one after the other: how many per row, which pixel, and its new value."""
    assert shard.path_offset is not None and shard.path_pixel is not None and shard.path_value is not None
    begin, end = shard.path_offset[rows], shard.path_offset[rows + 1]
    steps = np.concatenate([np.arange(a, b) for a, b in zip(begin, end, strict=True)] or [np.zeros(0)]).astype(int)
    path = {"steps": (end - begin).astype("<u4"), "pixel": shard.path_pixel[steps].astype("<u4")}
    return path | {"value": quantised(shard.path_value[steps])}


def _packed(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    starts = accumulate((array.nbytes for array in arrays.values()), initial=0)
    offsets = {name: [start, array.nbytes] for (name, array), start in zip(arrays.items(), starts, strict=False)}
    text = json.dumps(header | {"arrays": offsets}, separators=(",", ":"), allow_nan=False).encode()
    content = len(text).to_bytes(4, "little") + text + b"".join(array.tobytes() for array in arrays.values())
    return base64.b64encode(zlib.compress(content, 9)).decode()
