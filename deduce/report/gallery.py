"""The pictures of the gallery: every pair's original, counterfactuals and changes, packed small for a browser.

One packet per test set: a deflated buffer of a little-endian uint32 (the length of the header), a JSON header (which
pairs, their numbers, where each array begins) and the arrays. Pixels are rounded to 8 bits for the eye; the numbers
are the results table's own.
"""

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from deduce.evaluation.metrics import METRICS
from deduce.shards import Pairs, Shard

LIMIT = 11_000_000  # characters of pictures in a page that has to stay below 15 MB


@dataclass(frozen=True)
class TestSet:
    """One test set: its pairs, each method's answer to them, and its rows of the results table."""

    seed: int
    pairs: Pairs
    shards: dict[str, Shard]
    results: pd.DataFrame


@dataclass(frozen=True)
class Packet:
    seed: int
    images: int  # how many of the test set's images it holds
    data: str  # base64


def packets(sets: Iterable[TestSet], limit: int = LIMIT) -> list[Packet]:
    """As many test sets as fit into `limit` characters, the first ones first; of the last, as many images as fit."""
    packed: list[Packet] = []
    for one in sets:
        room = limit - sum(len(packet.data) for packet in packed)
        wanted = one.results["image"].nunique()
        packet = _packet(one, wanted)
        while len(packet.data) > room and wanted:
            wanted = min(wanted - 1, int(0.9 * wanted * room / len(packet.data)))
            packet = _packet(one, wanted)
        if wanted:
            packed.append(packet)
        if wanted < one.results["image"].nunique():
            break
    return packed


def measured(results: pd.DataFrame) -> list[str]:
    """The metrics that the results table has a number of."""
    return [name for name in METRICS if name in results and results[name].notna().any()]


def quantised(pixels: np.ndarray) -> np.ndarray:
    """Pixels in [0, 1] as uint8; what an imported result has outside is clipped."""
    return np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)


def _packet(one: TestSet, images: int) -> Packet:
    shown = sorted(one.results["image"].unique())[:images]
    keys = one.results[one.results["image"].isin(shown)][["image", "target"]].drop_duplicates()
    keys = keys.sort_values(["image", "target"])
    row = {pair: i for i, pair in enumerate(zip(one.pairs.image.tolist(), one.pairs.target.tolist(), strict=True))}
    rows = np.array([row[pair] for pair in keys.itertuples(index=False, name=None)], dtype=int)
    position = np.searchsorted(shown, one.pairs.image[rows])
    first = rows[np.unique(position, return_index=True)[1]]

    arrays = {"originals": quantised(one.pairs.original[first])}
    methods = {}
    for method, shard in one.shards.items():
        mine = one.results[one.results["method"] == method].set_index(["image", "target"]).loc[list(_pairs(keys))]
        methods[method] = _numbers(mine)
        # Differences modulo 256: zero where nothing changed, which packs to almost nothing.
        arrays[f"{method}/delta"] = quantised(shard.counterfactual[rows]) - quantised(one.pairs.original[rows])
        if shard.path_offset is not None:
            arrays |= {f"{method}/{name}": array for name, array in _path(shard, rows).items()}
    header: dict[str, Any] = {
        "seed": one.seed,
        "shape": list(one.pairs.original.shape[1:]),
        "images": [int(image) for image in shown],
        "labels": one.pairs.label[first].tolist(),
        "image": position.tolist(),
        "target": one.pairs.target[rows].tolist(),
        "methods": methods,
    }
    return Packet(one.seed, len(shown), _packed(header, arrays))


def _pairs(keys: pd.DataFrame) -> Iterable[tuple[int, int]]:
    return keys.itertuples(index=False, name=None)


def _numbers(mine: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns of the results table, with null where there is no number."""
    columns: dict[str, list[Any]] = {"found": [int(found) for found in mine["found"]]}
    for name in ("confidence_before", "confidence", "iterations", *METRICS):
        if name in mine and mine[name].notna().any():
            columns[name] = [None if pd.isna(value) else float(value) for value in mine[name]]
    return columns


def _path(shard: Shard, rows: np.ndarray) -> dict[str, np.ndarray]:
    """The changes of the chosen rows, one after the other: how many per row, which pixel, and its new value."""
    assert shard.path_offset is not None and shard.path_pixel is not None and shard.path_value is not None
    begin, end = shard.path_offset[rows], shard.path_offset[rows + 1]
    steps = np.concatenate([np.arange(a, b) for a, b in zip(begin, end, strict=True)] or [np.zeros(0)]).astype(int)
    return {
        "steps": (end - begin).astype("<u4"),
        "pixel": shard.path_pixel[steps].astype("<u4"),
        "value": quantised(shard.path_value[steps]),
    }


def _packed(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    offsets, place = {}, 0
    for name, array in arrays.items():
        offsets[name] = [place, array.nbytes]
        place += array.nbytes
    text = json.dumps(header | {"arrays": offsets}, separators=(",", ":"), allow_nan=False).encode()
    content = len(text).to_bytes(4, "little") + text + b"".join(array.tobytes() for array in arrays.values())
    return base64.b64encode(zlib.compress(content, 9)).decode()
