"""Does the explained classifier still see the target after changes that a person would not notice? (docs/metrics.md)"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from deduce import compute
from deduce.fold import BLOCK
from deduce.realism.score import Images


def noise_resistance(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> Tensor:
    """The share of noisy copies: Gaussian noise, seeded by image, target and draw, and clipped to [0, 1]."""
    chosen = settings["robustness"]
    kept = torch.zeros(len(images.pixels), dtype=torch.float64, device=images.pixels.device)
    for draw in range(chosen["draws"]):
        noise = torch.empty(images.pixels.shape)
        for row, key in enumerate(zip(images.index.tolist(), images.targets.tolist(), strict=True)):
            noise[row].normal_(generator=compute.generator("noise", draw, *key))
        noisy = (images.pixels + chosen["noise"] * noise.to(images.pixels)).clamp(0, 1)
        kept += _sees_target(models["explained"], noisy, images.targets)
    return kept / chosen["draws"]


def retraining(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> Tensor:
    """1 if the same network after another training sees the target, else 0."""
    return _sees_target(models["retrained"], images.pixels, images.targets)


def shift(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> Tensor:
    """The share of four copies, each moved by one pixel in one direction; what enters is black."""
    moves = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))  # rows added left, right, above, below
    height, width = images.pixels.shape[2:]
    kept = []
    for left, right, above, below in moves:
        padded = F.pad(images.pixels, (left, right, above, below))
        moved = padded[:, :, below : below + height, right : right + width]
        kept.append(_sees_target(models["explained"], moved, images.targets))
    return torch.stack(kept).mean(0)


def rounding(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> Tensor:
    """1 if the image of 8 bits per channel, which a person is shown, is still seen as the target; else 0."""
    return _sees_target(models["explained"], (images.pixels * 255).round() / 255, images.targets)


@torch.no_grad()
def _sees_target(classifier: Any, images: Tensor, targets: Tensor) -> Tensor:
    """1 where the target is the most probable class, else 0: (n,) float64."""
    seen = [classifier(block).argmax(1) for block in images.split(BLOCK)]
    return (torch.cat(seen) == targets).double()
