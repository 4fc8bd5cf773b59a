"""Which pairs of an image and a target the methods are asked: the paper's test sets and validation batch."""

import numpy as np
import torch

from deduce.data import CLASSES
from deduce.shards import Pairs

TEST_SET_SIZE = 100


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
