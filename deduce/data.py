"""Datasets as tensors, with the paper's splits and test sets."""

from pathlib import Path

import numpy as np
import torch

from deduce.datasets import DATASETS
from deduce.errors import InputError
from deduce.shards import Pairs

TRAINING_IMAGES = 50_000  # the first of the 60,000; the rest are for validation (no shuffling, as in the paper)
TEST_SET_SIZE = 100
CLASSES = 10
SPLITS = ("train", "validation", "test")


def torchvision_datasets():
    """`torchvision.datasets`, also where torchvision was built for CUDA and torch was not.

    There, importing torchvision fails because the schemas of two compiled operators are missing. Nothing here calls
    them, so declaring the schemas is enough.
    """
    try:
        from torchvision import datasets
    except RuntimeError:
        for operator in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        from torchvision import datasets
    return datasets


def load(root: str | Path, dataset: str, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (n, 1, 28, 28) float32 in [0, 1] and labels (n,) int64, in the dataset's own order."""
    if split not in SPLITS:
        raise InputError(f"split {split!r} is not one of {', '.join(SPLITS)}")
    stored = getattr(torchvision_datasets(), DATASETS[dataset].folder)(str(root), train=split != "test")
    images, labels = stored.data.unsqueeze(1).float().div(255), stored.targets.long()
    if split == "train":
        return images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES]
    if split == "validation":
        return images[TRAINING_IMAGES:], labels[TRAINING_IMAGES:]
    return images, labels


def test_set(number: int, images: int = TEST_SET_SIZE) -> torch.Tensor:
    """Which test images form set `number` (from 1): consecutive hundreds, or the first images of each."""
    return torch.arange(images) + TEST_SET_SIZE * (number - 1)


def validation_batch(images: int = TEST_SET_SIZE) -> torch.Tensor:
    """Which validation images the paper tuned on: the first batch of a loader that was shuffled with seed 1."""
    shuffle = torch.Generator().manual_seed(1)
    torch.empty((), dtype=torch.int64).random_(generator=shuffle)  # the loader draws its workers' seed first
    return torch.randperm(10_000, generator=shuffle)[:images]


def all_pairs(images: torch.Tensor, labels: torch.Tensor, index: torch.Tensor) -> Pairs:
    """Every image of `index` with every class but its label as target."""
    image, target = torch.meshgrid(index, torch.arange(CLASSES), indexing="ij")
    wanted = target != labels[image]
    image, target = image[wanted], target[wanted]
    return Pairs(
        image=image.numpy(),
        label=labels[image].numpy(),
        target=target.numpy(),
        original=images[image].numpy(),
        classes=np.array(CLASSES),
    )
