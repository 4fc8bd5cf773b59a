"""The results table: one row per method, training, test set, image and target, made from checked shards and scores."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deduce.evaluation.attributes import changes
from deduce.evaluation.metrics import SCORES, distances
from deduce.evaluation.summary import PAIR
from deduce.shards import ContractError, Pairs, Scores, Shard
from deduce.variants import base

KEYS = ["method", *PAIR]
REFERENCES = ["kind", "seed", "image", "agan"]


def rows(
    method: str,
    seed: int | str,
    pairs: Pairs,
    shard: Shard,
    scores: Scores | None,
    where: str,
    training_seed: int = 1,
) -> pd.DataFrame:
    """One shard's rows of the results table; fails, naming `where`, unless the shard answers these pairs.

    Scores are optional: their columns are empty where realism was not measured.
    """
    if shard.metadata["method"] != method:
        raise ContractError(f"{where}: is a shard of method {shard.metadata['method']!r}, not of {method!r}")
    shard.answers(pairs, where)
    scored = {} if scores is None else scores.values
    display_name = shard.metadata.get("display_name", method)
    columns: dict[str, Any] = {"method": method, "display_name": display_name, "seed": seed}
    columns |= {"training_seed": training_seed}
    columns |= {name: getattr(shard, name) for name in ("image", "label", "target", "found")}
    columns |= distances(pairs.original, shard.counterfactual)
    columns |= changes(pairs.original, shard.counterfactual)
    columns |= {name: scored[name].astype(float) if name in scored else np.nan for name in SCORES}
    columns |= {"confidence": shard.confidence, "iterations": pd.array(shard.iterations, dtype="Int64")}
    if shard.confidence_before is not None:
        columns["confidence_before"] = shard.confidence_before
    columns |= {name: pd.NA if name == "iterations" else np.nan for name in shard.unknown}
    table = pd.DataFrame(columns)
    return table[table["target"] != table["label"]]


def check_settings(shards: dict[str, Shard], settings: dict[str, Any]) -> None:
    """Fails unless all shards of one method, by file, were made alike and with the experiment's settings.

    A shard's metadata may record more than the config's section of its method; settings that both record must agree.
    """
    for where, shard in shards.items():
        recorded = shard.metadata.get("settings", {})
        for key in sorted(recorded.keys() & settings.keys()):
            if recorded[key] != settings[key]:
                raise ContractError(
                    f"{where}: was made with {key} = {recorded[key]!r}, but this experiment has {settings[key]!r}: "
                    "a shard of another configuration"
                )
        first = next(iter(shards))
        for key in ("settings", "target_confidence", "display_name", "models"):
            if shard.metadata.get(key) != shards[first].metadata.get(key):
                raise ContractError(f"{where}: was made with other {key} than {first}: a shard of another run")


def references(kind: str, seed: int, scores: Scores) -> pd.DataFrame:
    """Scores of the reference images: the originals, and their reconstructions."""
    values = {name: scores.values[name].astype(float) for name in SCORES if name in scores.values}
    return pd.DataFrame({"kind": kind, "seed": seed, "image": scores.image} | values)


def collect(
    pairs: list[str],
    shards: list[str],
    scores: list[str],
    settings: dict[str, dict[str, Any]],
    training_seeds: dict[str, int],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The results table and the reference scores, from shards and scores `REPLICATE/SEED.npz` and pairs `SEED.npz`.

    A replicate is a method with the models of one training; `settings` and `training_seeds` are by replicate, with the
    methods in the order of the table. Scores in folders of other names are of reference images.
    """
    pairs_of = {Path(path).stem: Pairs.load(path) for path in pairs}
    score_files = {(Path(path).parent.name, Path(path).stem): path for path in scores}
    parts = []
    for replicate, expected in settings.items():
        loaded = {path: Shard.load(path) for path in shards if Path(path).parent.name == replicate}
        check_settings(loaded, expected)
        for path, shard in loaded.items():
            seed, scored = Path(path).stem, None
            if file := score_files.get((replicate, seed)):
                scored = Scores.load(file)
                scored.scores(shard, file)
            named = base(replicate), int(seed), pairs_of[seed]
            parts.append(rows(*named, shard, scored, path, training_seeds[replicate]))
    kinds = {key: path for key, path in score_files.items() if key[0] not in settings}
    scored_references = [references(kind, int(seed), Scores.load(path)) for (kind, seed), path in kinds.items()]
    table = order(pd.concat(parts), map(base, settings))
    return table, pd.concat(scored_references or [pd.DataFrame(columns=REFERENCES)])


def order(table: pd.DataFrame, methods: Iterable[str]) -> pd.DataFrame:
    """Sorted by method (in the order of the config) and pair: the same bytes on every run."""
    rank = {method: position for position, method in enumerate(dict.fromkeys(methods))}
    return table.sort_values(KEYS, key=lambda column: column.map(rank) if column.name == "method" else column)


def read(path: Any) -> pd.DataFrame:
    """The results table back from its CSV."""
    return pd.read_csv(path, dtype={"method": str, "display_name": str}, keep_default_na=False, na_values=[""])
