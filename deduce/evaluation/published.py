"""The authors' stored results (github.com/benedikthoeltgen/DeDUCE) as artefacts of this project.

A clone of their repository has, for each of the five test sets, a folder with the originals, each method's images for
100 originals x 10 classes, the iteration counts, and the AnoGAN scores. What they mean is theirs: which pairs count as
found, and that the column of an image's own class holds the original (DeDUCE, JSMA) or its reconstruction (REVISE).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deduce.errors import InputError
from deduce.evaluation.torch_archive import load_tensor
from deduce.shards import Pairs, Scores, Shard

SEEDS = [1, 2, 3, 4, 5]
IMAGES, CLASSES, SIDE = 100, 10, 28


@dataclass(frozen=True)
class Stored:
    """Where one method's files lie in a folder of the clone, and how its failures are recognised."""

    display_name: str
    images: str
    scores: str
    iterations: str | None  # None: not stored; then a failure is an image that sums to zero
    limit: int | None  # iterations of a search that failed


METHODS = {
    "deduce": Stored("DeDUCE", "DeDUCE_arr_c4m6cl1p1.pt", "DeDUCE_AGAN_c4m6cl1p1.npy", "DeDUCE_iter_c4m6cl1p1.pt", 700),
    "jsma": Stored("JSMA", "JSMA_arr_c0p1.pt", "JSMA_AGAN_c0p1.npy", "JSMA_iter_c0p1.pt", 700),
    "vlk": Stored("VLK", "VLK_arr_c0.pt", "VLK_AGAN_c0.npy", None, None),
    "revise": Stored("REVISE", "REVISE_l0s-5_arr_c0.pt", "REVISE_l0s-5_AGAN_c0.npy", "REVISE_l0s-5_iter_c0.pt", 50_000),
}
ORIGINALS_SCORED_BY, RECONSTRUCTIONS_SCORED_BY = "deduce", "revise"


def folder(clone: str | Path, seed: int) -> Path:
    """The folder of one test set; the first has no number."""
    path = Path(clone) / f"_testset_results{'' if seed == 1 else seed}"
    if not path.is_dir():
        raise InputError(f"{path}: no such folder; `published` must name a clone of the authors' repository")
    return path


def originals(clone: str | Path, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The images (100, 1, 28, 28) float32 in [0, 1] and labels (100,) of a test set."""
    stem = f"orig_batch{'' if seed == 1 else seed}_{IMAGES}"
    images = read_tensor(folder(clone, seed) / f"{stem}_X.pt").reshape(IMAGES, 1, SIDE, SIDE)
    return images.astype(np.float32), read_tensor(folder(clone, seed) / f"{stem}_y.pt", (IMAGES,)).astype(np.int64)


def import_seed(clone: str | Path, seed: int) -> tuple[Pairs, dict[str, Shard], dict[str, Scores]]:
    """One test set: its 900 pairs, each method's shard, and the scores, also of originals and reconstructions."""
    images, labels = originals(clone, seed)
    first = IMAGES * (seed - 1)  # test set s is test images 100 (s - 1) to 100 s - 1
    pairs, asked = asked_pairs(images, labels, first)
    shards, scores = {}, {}
    for method, stored in METHODS.items():
        shards[method] = _shard(clone, seed, method, stored, pairs, asked)
        agan = _array(folder(clone, seed) / stored.scores, (IMAGES, CLASSES))
        origin = {"as_published": True, "file": stored.scores}
        scores[method] = Scores(pairs.image, pairs.target, agan.reshape(-1)[asked], metadata=origin)
        own_class = Scores(first + np.arange(IMAGES), labels, agan[np.arange(IMAGES), labels], metadata=origin)
        if method == ORIGINALS_SCORED_BY:
            scores["original"] = own_class
        if method == RECONSTRUCTIONS_SCORED_BY:
            scores["reconstruction"] = own_class
    return pairs, shards, scores


def asked_pairs(images: np.ndarray, labels: np.ndarray, first: int) -> tuple[Pairs, np.ndarray]:
    """The pairs whose target is not the image's own class, and where they are among images x classes, (n,) bool."""
    position, target = np.divmod(np.arange(IMAGES * CLASSES), CLASSES)
    asked = target != labels[position]
    position, target = position[asked], target[asked]
    return Pairs(first + position, labels[position], target, images[position], np.array(CLASSES)), asked


def _shard(clone: str | Path, seed: int, method: str, stored: Stored, pairs: Pairs, asked: np.ndarray) -> Shard:
    place = folder(clone, seed)
    images = read_tensor(place / stored.images, (IMAGES, CLASSES, SIDE * SIDE)).reshape(-1, 1, SIDE, SIDE)[asked]
    unknown = ["confidence"]
    if stored.iterations is None:
        found = images.reshape(len(images), -1).sum(1) != 0
        iterations = np.zeros(len(images), np.int64)
        unknown.append("iterations")
    else:
        iterations = read_tensor(place / stored.iterations, (IMAGES, CLASSES)).reshape(-1)[asked].astype(np.int64)
        found = iterations < stored.limit
    metadata = {
        "method": method,
        "display_name": stored.display_name,
        "as_published": True,
        "unknown": unknown,
        "file": stored.images,
    }
    confidence = np.full(len(images), np.nan, np.float32)
    return Shard(
        pairs.image, pairs.label, pairs.target, images.astype(np.float32), found, confidence, iterations, metadata
    )


def reconstructions(clone: str | Path, seed: int, count: int) -> dict[str, np.ndarray]:
    """Originals and their mean reconstructions, the column of an image's own class in REVISE's file."""
    images, labels = originals(clone, seed)
    stored = METHODS[RECONSTRUCTIONS_SCORED_BY]
    made = read_tensor(folder(clone, seed) / stored.images, (IMAGES, CLASSES, SIDE * SIDE))
    own_class = made[np.arange(IMAGES), labels].reshape(-1, 1, SIDE, SIDE)
    return {"original": images[:count], "mean": own_class[:count].astype(np.float32)}


def results_file(clone: str | Path, seed: int) -> np.ndarray:
    """The authors' own summary of a test set: rows as METHODS, columns AGAN, L0, L1, failure in %."""
    return read_tensor(folder(clone, seed) / "RESULTS.pt", (len(METHODS), 4))


def read_tensor(path: Path, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """A stored tensor as an array, of the given shape."""
    return _shaped(path, load_tensor(path), shape)


def _array(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return _shaped(path, np.load(path, allow_pickle=False), shape)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npy without pickles ({error})") from error


def _shaped(path: Path, array: np.ndarray, shape: tuple[int, ...] | None) -> np.ndarray:
    if shape is not None and array.shape != shape:
        raise InputError(f"{path}: has shape {array.shape}, expected {shape}")
    return array
