"""The authors' results on the five test sets, read from a clone of their repository.

For each test set, the clone has a folder with the originals, each method's images for all originals and classes, the
numbers of iterations, and the AnoGAN scores. In the column of an original's own class, there is no counterfactual but
the original itself (DeDUCE, JSMA) or its reconstruction (REVISE).
"""

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deduce.datasets import DATASETS
from deduce.errors import InputError
from deduce.pairs import all_pairs
from deduce.published import PUBLISHED
from deduce.published.archive import load_array
from deduce.shards import Pairs, Scores, Shard

if TYPE_CHECKING:
    import pandas as pd

DATASET = DATASETS[PUBLISHED["dataset"]]
SEEDS: list[int] = PUBLISHED["seeds"]
IMAGES: int = PUBLISHED["images_per_seed"]
CLASSES = len(DATASET.classes)
EACH_IMAGE = slice(None, None, CLASSES - 1)  # one row of each image, from the rows of all pairs


class Stored(NamedTuple):
    """The names of one method's files in the folder of a test set, and how a failed search is recognised."""

    display_name: str
    images: str
    scores: str
    iterations: str | None  # None if they were not stored; an image that sums to zero is then a failure
    limit: int = 0  # the number of iterations after which a search fails


METHODS = {
    "deduce": Stored("DeDUCE", "DeDUCE_arr_c4m6cl1p1.pt", "DeDUCE_AGAN_c4m6cl1p1.npy", "DeDUCE_iter_c4m6cl1p1.pt", 700),
    "jsma": Stored("JSMA", "JSMA_arr_c0p1.pt", "JSMA_AGAN_c0p1.npy", "JSMA_iter_c0p1.pt", 700),
    "vlk": Stored("VLK", "VLK_arr_c0.pt", "VLK_AGAN_c0.npy", None),
    "revise": Stored("REVISE", "REVISE_l0s-5_arr_c0.pt", "REVISE_l0s-5_AGAN_c0.npy", "REVISE_l0s-5_iter_c0.pt", 50_000),
}
# The methods whose files hold originals and reconstructions in the column of an original's own class.
REFERENCES = {"deduce": "original", "revise": "reconstruction"}


def import_seed(clone: str | Path, seed: int) -> tuple[Pairs, dict[str, Shard], dict[str, Scores]]:
    """The pairs of a test set, a shard per method, and the scores of each method, the originals and reconstructions."""
    folder, pairs = _test_set(clone, seed)
    index, labels = pairs.image[EACH_IMAGE], pairs.label[EACH_IMAGE]
    shards, scores = {}, {}
    for method, stored in METHODS.items():
        iterations = folder / stored.iterations if stored.iterations else None
        shards[method] = read_shard(method, pairs, folder / stored.images, iterations)
        agan = load_array(folder / stored.scores, (IMAGES, CLASSES))
        origin = {"as_published": True, "file": stored.scores}
        values = agan[pairs.image % IMAGES, pairs.target]
        scores[method] = Scores(pairs.image, pairs.target, agan=values, metadata=origin)
        if method in REFERENCES:
            scores[REFERENCES[method]] = Scores(index, labels, agan=agan[index % IMAGES, labels], metadata=origin)
    return pairs, shards, scores


def read_pairs(stem: Path, first: int = 0) -> Pairs:
    """The pairs of the originals in `STEM_X.pt`, with labels in `STEM_y.pt`; `first` is the index of the first one."""
    images = load_array(f"{stem}_X.pt", (IMAGES, *DATASET.shape)).astype(np.float32)
    labels = load_array(f"{stem}_y.pt", (IMAGES,)).astype(np.int64)
    return all_pairs(images, labels, first + np.arange(IMAGES), CLASSES)


def read_shard(method: str, pairs: Pairs, images: Path, iterations: Path | None, **metadata: Any) -> Shard:
    """A method's shard from its stored images and, if there are any, its stored numbers of iterations."""
    stored, unknown = METHODS[method], ["confidence"]
    counterfactuals = _images(images, pairs.image, pairs.target)
    if iterations is None:
        found = counterfactuals.reshape(len(pairs), -1).sum(1) != 0
        counts = np.zeros(len(pairs), np.int64)
        unknown.append("iterations")
    else:
        counts = load_array(iterations, (IMAGES, CLASSES))[pairs.image % IMAGES, pairs.target].astype(np.int64)
        found = counts < stored.limit
    metadata |= {"method": method, "display_name": stored.display_name, "as_published": True}
    metadata |= {"unknown": unknown, "file": images.name}
    confidence = np.full(len(pairs), np.nan, np.float32)
    return Shard(pairs.image, pairs.label, pairs.target, counterfactuals, found, confidence, counts, metadata)


def reconstructions(clone: str | Path, seed: int, count: int) -> dict[str, np.ndarray]:
    """Originals and their mean reconstructions, each (count, 1, 28, 28)."""
    folder, pairs = _test_set(clone, seed)
    images = _images(folder / METHODS["revise"].images, pairs.image[EACH_IMAGE], pairs.label[EACH_IMAGE])
    return {"original": pairs.original[EACH_IMAGE][:count], "mean": images[:count]}


def summaries(clone: str | Path) -> "pd.DataFrame":
    """The authors' own summary of each test set: columns agan, l0, l1, failure (in %), seed, method."""
    import pandas as pd  # imported here because the rules read the authors' sweeps through this module, without pandas

    columns = ["agan", "l0", "l1", "failure"]
    files = {seed: _test_set(clone, seed)[0] / "RESULTS.pt" for seed in SEEDS}
    values = {seed: load_array(file, (len(METHODS), len(columns))) for seed, file in files.items()}
    return pd.concat(pd.DataFrame(values[seed], columns=columns).assign(seed=seed, method=[*METHODS]) for seed in SEEDS)


def _images(path: Path, index: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """A method's stored images for originals (n,) and classes (n,): (n, 1, 28, 28) float32."""
    pixels = load_array(path, (IMAGES, CLASSES, prod(DATASET.shape)))[index % IMAGES, classes]
    return pixels.astype(np.float32).reshape(-1, *DATASET.shape)


def _test_set(clone: str | Path, seed: int) -> tuple[Path, Pairs]:
    """The folder of a test set, and its pairs."""
    number = "" if seed == 1 else seed  # the name of the first folder has no number
    folder = Path(clone, f"_testset_results{number}")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; `published` must name a clone of the authors' repository")
    return folder, read_pairs(folder / f"orig_batch{number}_{IMAGES}", IMAGES * (seed - 1))
