"""The sets of pairs (image, target) that methods answer: test sets, the validation batch, and samples."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deduce.datasets import TEST_SET_SIZE, Dataset
from deduce.shards import Pairs

# Names of pair sets other than the number of a test set. `sample30` is 30 pairs of the first test set.
VALIDATION, TIMED, SAMPLE = "validation", "timed", "sample"


def is_measured(name: str) -> bool:
    """Whether a pair set is searched alone on the machine, with the seconds of each pair recorded."""
    return name == TIMED or name.startswith(SAMPLE)


def pair_choice(name: str, config: Mapping[str, Any]) -> dict[str, int]:
    """The arguments of `pair_set` for a named pair set: only what the set depends on, because a rule tracks them."""
    if name == VALIDATION:
        return {"images": config["validation_images"]}
    if name.isdigit():
        return {"images": config["images_per_seed"], "test_set": int(name)}
    sample = config["timing"]["pairs"] if name == TIMED else int(name.removeprefix(SAMPLE))
    return {"images": config["images_per_seed"], "test_set": config["seeds"][0], "sample": sample}


def pair_set(dataset: Dataset, root: str | Path, images: int, test_set: int = 0, sample: int = 0) -> Pairs:
    """Each of `images` images with every class but its label as target: images of a test set, or validation images.

    `sample` keeps only that many pairs, evenly spread.
    """
    pixels, labels = dataset.read(root, "test" if test_set else "validation")
    assert labels is not None, f"{dataset.name} has no labels"
    index = TEST_SET_SIZE * (test_set - 1) + np.arange(images) if test_set else validation_batch(images, len(pixels))
    pairs = all_pairs(pixels[index].astype(np.float32) / 255, labels[index], index, len(dataset.classes))
    if sample:
        pairs = pairs.rows(np.unique(np.linspace(0, len(pairs) - 1, sample).round().astype(int)))
    return pairs


def validation_batch(images: int, total: int) -> np.ndarray:
    """The validation images that the paper tuned on: the first batch of a loader that was shuffled with seed 1."""
    import torch

    shuffle = torch.Generator().manual_seed(1)
    torch.empty((), dtype=torch.int64).random_(generator=shuffle)  # the loader first draws a seed for its workers
    return torch.randperm(total, generator=shuffle)[:images].numpy()


def all_pairs(images: np.ndarray, labels: np.ndarray, index: np.ndarray, classes: int) -> Pairs:
    """Every image with every class but its label as target; `index` is the images' place in the dataset's split."""
    row, target = np.nonzero(labels[:, None] != np.arange(classes))
    return Pairs(index[row], labels[row], target, images[row], np.array(classes))
