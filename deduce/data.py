"""Datasets as tensors, with the paper's splits."""

from pathlib import Path

import torch

from deduce.datasets import DATASETS, torchvision_datasets
from deduce.errors import InputError

TRAINING_IMAGES = 50_000  # the first of the 60,000; the rest are for validation (no shuffling, as in the paper)
CLASSES = 10
SPLITS = ("train", "validation", "test")


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
