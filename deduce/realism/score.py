"""All realism scores of a set of images.

A scorer is a function `scorer(images, models, settings)` that returns one number per image, a tensor (n,), with NaN
where an image has no score; or, for a metric with `parts`, such a tensor by the name of each column. `models` holds the
models that the scorer's metric names, by role; `settings` holds the sections of the config's `realism`. Images and
models are on the same device: a scorer need not know which one it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deduce import compute
from deduce.evaluation.metrics import METRICS
from deduce.shards import Scores


@dataclass(frozen=True)
class Images:
    """Images to be scored, as counterfactuals from one class to another."""

    pixels: Tensor  # (n, channels, height, width) float32 in [0, 1]
    originals: Tensor  # the images that they were made from, of the same shape
    index: Tensor  # (n,) of the original in its dataset; with the target, it seeds a scorer's random numbers
    labels: Tensor  # (n,) class of the original
    targets: Tensor  # (n,) class that the image should have


def score(
    models: Mapping[str, Any], settings: Mapping[str, Any], images: np.ndarray, originals: np.ndarray,
    index: np.ndarray, labels: np.ndarray, targets: np.ndarray, wanted: np.ndarray,
    names: Iterable[str] | None = None,
) -> Scores:  # fmt: skip
    """Scores of the `wanted` (n,) rows by every metric whose scorer and models are there, NaN in the other rows.

    models: by role; `training` is the training images and their labels. images, originals: (n, channels, height, width)
    in [0, 1]; index, labels, targets: (n,), as in `Images`. names: of the metrics, if not all are wanted.
    """
    metrics = [metric for metric in METRICS.values() if metric.scorer and set(metric.models) <= models.keys()]
    metrics = [metric for metric in metrics if metric.name in (names or METRICS)]
    columns: dict[str, Any] = {
        name: np.full(len(images), np.nan) for metric in metrics for name in (metric.name, *metric.parts)
    }
    if wanted.any():
        device = compute.device()
        models = {role: model.to(device) if isinstance(model, nn.Module) else model for role, model in models.items()}
        rows = (torch.as_tensor(array[wanted]).long().to(device) for array in (index, labels, targets))
        pixels = (torch.as_tensor(array[wanted]).to(device) for array in (images, originals))
        chosen = Images(*pixels, *rows)
        for metric in metrics:
            values = resolve_name(metric.scorer)(chosen, {role: models[role] for role in metric.models}, settings)
            for name, column in (values if metric.parts else {metric.name: values}).items():
                columns[name][wanted] = column.cpu().numpy()
    return Scores(index, targets, **columns)


def choice(dataset: str, available: int, wanted: int) -> np.ndarray:
    """Indices of the images that the sanity check scores: `wanted` of them, seeded by the dataset's name, or all."""
    order = torch.randperm(available, generator=compute.generator("sanity", dataset))
    return np.sort(order[:wanted].numpy())
