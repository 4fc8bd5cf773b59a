"""A folder of artefacts as a run leaves it, made of random images in a second, for any methods; and its evaluation."""

from pathlib import Path
from typing import Any

import numpy as np

from deduce.artifacts import save_csv
from deduce.evaluation import bundle, results
from deduce.evaluation.metrics import ORACLE_COLUMNS
from deduce.evaluation.run import Run
from deduce.experiment import ARTIFACTS, Experiment
from deduce.shards import Pairs, Scores, Shard
from deduce.variants import base

CLASSES = 10
NAMES = {"deduce": "DeDUCE", "jsma": "JSMA", "vlk": "VLK", "revise": "REVISE"}


def make_pairs(seed: int, images: int = 4, side: int = 28) -> Pairs:
    """`images` images of test set `seed`, each with every class but its label as target."""
    rng = np.random.default_rng(seed)
    pixels = (rng.integers(0, 256, (images, 1, side, side)) / 255).astype(np.float32)
    position, target = np.divmod(np.arange(images * CLASSES), CLASSES)
    label = position % CLASSES
    other = target != label
    position, target, label = position[other], target[other], label[other]
    return Pairs(100 * (seed - 1) + position, label, target, pixels[position], np.array(CLASSES))


def make_shard(method: str, seed: int, pairs: Pairs, **settings: Any) -> Shard:
    """Counterfactuals that differ in some pixels; about one in ten is not found. `method` may be a replicate."""
    rng = np.random.default_rng([seed, *method.encode()])
    n = len(pairs)
    changed = rng.random(pairs.original.shape) < rng.uniform(0.02, 0.2, (n, 1, 1, 1))
    images = np.where(changed, rng.random(pairs.original.shape, dtype=np.float32), pairs.original).astype(np.float32)
    found = rng.random(n) < 0.9
    confidence = np.where(found, rng.uniform(0.5, 0.6, n), rng.uniform(0, 0.49, n)).astype(np.float32)
    name = base(method)
    metadata = {"method": name, "display_name": NAMES.get(name, name), "settings": settings}
    metadata |= {"target_confidence": 0.5, "classes": CLASSES}
    iterations = np.where(found, rng.integers(1, 300, n), 700)
    return Shard(pairs.image, pairs.label, pairs.target, images, found, confidence, iterations, metadata)


def make_timed_shard(method: str, pairs: Pairs) -> Shard:
    """A shard that records the seconds of each row."""
    shard = make_shard(method, 1, pairs)
    shard.seconds = np.linspace(0.1, 0.3, len(pairs)) * len(method)
    shard.metadata["machine"] = "a test machine"
    return shard


def make_scores(image: np.ndarray, target: np.ndarray, seed: int) -> Scores:
    rng = np.random.default_rng(seed)
    columns = {name: rng.lognormal(3, 0.3, len(image)) for name in ("agan", "im1", "im2", "log_density")}
    votes = {name: rng.integers(0, 2, len(image)).astype(float) for name in ORACLE_COLUMNS}
    return Scores(image, target, **columns, oracle=np.mean([*votes.values()], axis=0), **votes)


def make_folder(
    folder: Path,
    methods: tuple[str, ...] = ("deduce", "jsma", "revise"),
    seeds: tuple[int, ...] = (1, 2),
    images: int = 4,
    realism: bool = True,
    timed: bool = True,
    training_seeds: tuple[int, ...] = (1,),
) -> Path:
    """The folder, sealed: pairs, counterfactuals, realism, timed shards, facts about models, manifest and checksums."""
    settings = {"step": 0.2}
    # A replicate's name in this folder, and the name by which its content is drawn: the same in every folder.
    suffixes = {"" if seed == training_seeds[0] else f"@training_seed={seed}": seed for seed in training_seeds}
    replicates = {
        f"{method}{suffix}": method if seed == 1 else f"{method}@training_seed={seed}"
        for suffix, seed in suffixes.items()
        for method in methods
    }
    for seed in seeds:
        pairs = make_pairs(seed, images)
        pairs.save(folder / f"pairs/{seed}.npz")
        for name, content in replicates.items():
            make_shard(content, seed, pairs, **settings).save(folder / f"counterfactuals/{name}/{seed}.npz")
            if realism:
                make_scores(pairs.image, pairs.target, seed).save(folder / f"realism/{name}/{seed}.npz")
        if realism:
            image, row = np.unique(pairs.image, return_index=True)
            for kind in ("original", "reconstruction"):
                make_scores(image, pairs.label[row], seed).save(folder / f"realism/{kind}/{seed}.npz")
    if timed:
        sample = make_pairs(seeds[0], images).rows(np.arange(0, 9 * images, 7))
        sample.save(folder / "pairs/timed.npz")
        for method in methods:
            make_timed_shard(method, sample).save(folder / f"counterfactuals/{method}/timed.npz")
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models/card.csv").write_text("model,quantity,value,reference,note\nddu,test accuracy,0.99,,\n")
    (folder / "models/oracles.csv").write_text("epoch,loss,validation_accuracy,seconds\n1,0.5,0.9,3.2\n")
    for suffix in suffixes:
        record = "epoch,loss,validation_accuracy,seconds\n1,0.5,0.9,3.2\n2,0.2,0.95,3.1\n"
        (folder / f"models/ddu{suffix}.csv").write_text(record)
    seal(folder, methods, seeds, images, settings, training_seeds)
    return folder


def seal(
    folder: Path,
    methods: tuple[str, ...],
    seeds: tuple[int, ...],
    images: int,
    settings: dict[str, Any],
    training_seeds: tuple[int, ...] = (1,),
) -> None:
    config = {"name": "stored", "dataset": "mnist", "seeds": list(seeds), "images_per_seed": images}
    config |= {"training_seeds": list(training_seeds), "replicated": ["ddu", "plain", "density"]}
    config |= {"methods": list(methods), **{method: settings for method in methods}}
    bundle.seal(folder, files(folder), bundle.describe(config))


def reseal(folder: Path) -> None:
    """New checksums for whatever the folder now holds: a careful forger's work."""
    bundle.seal(folder, files(folder), bundle.Bundle(folder).manifest)


def files(folder: Path) -> list[str]:
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return [name for name in names if name not in (bundle.SUMS, bundle.MANIFEST)]


def evaluated(folder: Path, output: Path) -> Run:
    """The run of a sealed folder, with its results table written to `output`."""
    stored = bundle.Bundle(folder)
    names = tuple(sorted(set(stored.sums) - {bundle.MANIFEST}))
    experiment = Experiment(stored.config, ARTIFACTS, "stored", str(folder), names)
    artifacts = {kind: [str(folder / name) for name in names] for kind, names in experiment.artifacts.items()}
    settings = {replicate: experiment.settings(replicate) for replicate in experiment.replicates}
    training_seeds = {replicate: experiment.training_seed(replicate) for replicate in experiment.replicates}
    kinds = (artifacts.get(kind, []) for kind in ("pairs", "counterfactuals", "realism"))
    table, references = results.collect(*kinds, settings, training_seeds)
    tables = {"results": output / "results.csv", "references": output / "references.csv"}
    save_csv(tables["results"], table)
    save_csv(tables["references"], references)
    return Run(experiment.config, artifacts | tables, ARTIFACTS)
