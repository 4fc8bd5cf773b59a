"""The results table: one row per method, test set, image and target, made from checked shards and scores."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from deduce.evaluation.metrics import SCORES, distances
from deduce.shards import ContractError, Pairs, Scores, Shard

KEYS = ["method", "seed", "image", "target"]


def rows(method: str, seed: int | str, pairs: Pairs, shard: Shard, scores: Scores | None, where: str) -> pd.DataFrame:
    """The part of the results table that one shard gives; fails, naming `where`, unless it answers these pairs.

    Scores are optional: their columns are empty where realism was not measured.
    """
    if shard.metadata["method"] != method:
        raise ContractError(f"{where}: is a shard of method {shard.metadata['method']!r}, not of {method!r}")
    shard.answers(pairs, where)
    table = pd.DataFrame(
        {
            "method": method,
            "display_name": shard.metadata.get("display_name", method),
            "seed": seed,
            "image": shard.image,
            "label": shard.label,
            "target": shard.target,
            "found": shard.found,
            **distances(pairs.original, shard.counterfactual),
            **{name: _score(scores, name, len(shard)) for name in SCORES},
            "confidence": shard.confidence,
            "iterations": pd.array(shard.iterations, dtype="Int64"),
        }
    )
    if shard.confidence_before is not None:
        table["confidence_before"] = shard.confidence_before
    for name in shard.unknown:
        table[name] = pd.NA if name == "iterations" else np.nan
    return table[table["target"] != table["label"]]


def _score(scores: Scores | None, name: str, n: int) -> np.ndarray:
    values = None if scores is None else getattr(scores, name)
    return np.full(n, np.nan) if values is None else values.astype(float)


def check_settings(shards: dict[str, Shard], settings: dict[str, Any]) -> None:
    """Fails unless all shards of one method, by file, were made alike and with the experiment's settings.

    A shard's metadata may record more than the config's section of its method; what both record must agree.
    """
    first: tuple[str, dict[str, Any]] | None = None
    for where, shard in shards.items():
        made_with = shard.metadata.get("settings", {})
        for key in sorted(made_with.keys() & settings.keys()):
            if made_with[key] != settings[key]:
                raise ContractError(
                    f"{where}: was made with {key} = {made_with[key]!r}, but this experiment has {settings[key]!r}: "
                    "a shard of another configuration"
                )
        if first is not None:
            for key in ("settings", "target_confidence", "display_name", "models"):
                if shard.metadata.get(key) != first[1].get(key):
                    raise ContractError(f"{where}: was made with other {key} than {first[0]}: a shard of another run")
        first = first or (where, shard.metadata)


def references(kind: str, seed: int, scores: Scores) -> pd.DataFrame:
    """Scores of images that no method made: the originals, and their reconstructions."""
    return pd.DataFrame({"kind": kind, "seed": seed, "image": scores.image, "agan": scores.agan.astype(float)})


def order(table: pd.DataFrame, methods: Iterable[str]) -> pd.DataFrame:
    """Sorted by method (in the order of the config), test set, image and target: the same bytes on every run."""
    rank = {method: position for position, method in enumerate(methods)}
    return table.sort_values(KEYS, key=lambda column: column.map(rank) if column.name == "method" else column)


def read(path: Any) -> pd.DataFrame:
    """The results table back from its CSV."""
    return pd.read_csv(path, dtype={"method": str, "display_name": str}, keep_default_na=False, na_values=[""])


def display_names(table: pd.DataFrame) -> dict[str, str]:
    """Method to the name that people know it by, in the order of the table."""
    return dict(table[["method", "display_name"]].drop_duplicates().itertuples(index=False))
