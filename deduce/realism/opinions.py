"""Second opinions on realism, beyond the paper: IM1 and IM2 (Van Looveren and Klaise), densities, and near neighbours.

docs/metrics.md says what each score can and cannot tell.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from deduce.fold import features_of
from deduce.models.class_autoencoders import ClassAutoencoders
from deduce.realism.score import Images

EPSILON = 1e-8  # keeps the ratios finite


def im1(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> Tensor:
    return interpretability(models["class_autoencoders"], images.pixels, images.labels, images.targets)[0]


def im2(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> Tensor:
    return interpretability(models["class_autoencoders"], images.pixels, images.labels, images.targets)[1]


@torch.no_grad()
def interpretability(
    autoencoders: ClassAutoencoders, images: Tensor, labels: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """IM1 and IM2, (n,) each, of images (n, channels, height, width): counterfactuals from `labels` to `targets`.

    IM1 is the squared error of the target class's autoencoder divided by that of the original class's; it compares two
    classes and is NaN where they are the same. IM2 is the squared difference of the reconstructions by the autoencoders
    of the target class and of all classes, divided by the image's L1 norm. Lower is better for both.
    """
    pixels, rows = images.flatten(1), torch.arange(len(images), device=images.device)
    reconstructions = autoencoders.reconstructions(images)
    by_target, by_label = reconstructions[targets, rows], reconstructions[labels, rows]
    ratio = (pixels - by_target).square().sum(1) / ((pixels - by_label).square().sum(1) + EPSILON)
    difference = (by_target - reconstructions[-1]).square().sum(1) / (pixels.abs().sum(1) + EPSILON)
    return ratio.masked_fill(labels == targets, torch.nan), difference


def log_density(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """log p(features | target) under the class densities of the classifier's features, and the same of the original."""
    densities = models["density"]
    after, before = (densities.log_density(rows, images.targets) for rows in _features(images, models))
    return {"log_density": after, "log_density_before": before}


def log_mixture(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """log p(features) under the mixture of these densities, and the same of the original."""
    after, before = map(models["density"], _features(images, models))
    return {"log_mixture": after, "log_mixture_before": before}


def _features(images: Images, models: Mapping[str, Any]) -> Iterator[Tensor]:
    """The classifier's features of the images, then of their originals."""
    return (features_of(models["classifier"], pixels) for pixels in (images.pixels, images.originals))


@torch.no_grad()
def nearest_training(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> Tensor:
    """The Euclidean distance to the nearest training image of the target class; NaN if the class has none."""
    pixels, labels = models["training"]
    nearest = images.pixels.new_full((len(images.pixels),), torch.nan)
    for target in images.targets.unique().tolist():
        rows, of_target = images.targets == target, pixels[labels == target].flatten(1).to(images.pixels)
        if len(of_target):
            nearest[rows] = torch.cdist(images.pixels[rows].flatten(1), of_target).amin(1)
    return nearest
