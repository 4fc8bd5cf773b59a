"""Figure 2 from real features: two classes and the way of one counterfactual, in a plane of the feature space.

The first direction of the plane is the one in which the two classes' logits differ, so that their decision boundary is
exactly a line across it; the second is that in which their features vary most otherwise.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from deduce.density import ClassDensities
from deduce.shards import Pairs, Shard


def choose_row(shard: Shard, wanted: tuple[int, int]) -> int | None:
    """The row to show: the (image, target) wanted if it was found, else the found one with the median path."""
    found = np.flatnonzero(shard.found & (shard.iterations > 0))
    for row in found:
        if (int(shard.image[row]), int(shard.target[row])) == wanted:
            return int(row)
    return int(found[np.argsort(shard.iterations[found], kind="stable")[len(found) // 2]]) if len(found) else None


def states(shard: Shard, pairs: Pairs, row: int) -> np.ndarray:
    """The images from the original to the counterfactual, (steps + 1, channels, height, width)."""
    original = pairs.original[row]
    if shard.path_offset is None or shard.path_pixel is None or shard.path_value is None:
        return np.stack([original, shard.counterfactual[row]])
    steps = slice(int(shard.path_offset[row]), int(shard.path_offset[row + 1]))
    images = [original.copy()]
    for pixel, value in zip(shard.path_pixel[steps], shard.path_value[steps], strict=True):
        image = images[-1].copy()
        image.reshape(-1)[pixel] = value
        images.append(image)
    return np.stack(images)


@torch.no_grad()
def feature_map(
    classifier: Any,
    densities: ClassDensities,
    images: dict[int, Tensor],
    path: Tensor,
) -> dict[str, np.ndarray]:
    """What `deduce.evaluation.figures.feature_map` draws.

    images: of the original's class and of the target's, in this order, (n, channels, height, width) each.
    path: the images on the way, (steps + 1, channels, height, width).
    """
    first, second = images
    features = {label: classifier.features(batch).double() for label, batch in images.items()}
    dimension = next(iter(features.values())).shape[1]
    zero = torch.zeros(1, dimension)
    bias = classifier.head(zero).double()[0]
    weight = classifier.head(torch.eye(dimension)).double() - bias  # of a linear head: (dimension, classes)
    normal, offset = weight[:, second] - weight[:, first], bias[second] - bias[first]
    across = normal / normal.norm()
    pooled = torch.cat([values - values.mean(0) for values in features.values()])
    rest = pooled - (pooled @ across)[:, None] * across
    along = torch.linalg.svd(rest, full_matrices=False).Vh[0]
    plane = torch.stack([across, along - (along @ across) * across], dim=1)
    plane[:, 1] /= plane[:, 1].norm()
    result = {
        "points": torch.cat(list(features.values())) @ plane,
        "point_class": torch.cat([torch.full((len(batch),), label) for label, batch in images.items()]),
        "classes": torch.tensor([first, second]),
        "means": torch.stack([densities.mean[label] for label in images]) @ plane,
        "covariances": torch.stack([_covariance(densities.whitening[label], plane) for label in images]),
        "path": classifier.features(path).double() @ plane,
        "boundary": torch.stack([normal.norm(), torch.zeros_like(offset), offset]),
    }
    return {name: values.numpy() for name, values in result.items()}


def _covariance(whitening: Tensor, plane: Tensor) -> Tensor:
    """A class's covariance in the plane. Its density keeps W with Σ⁻¹ = WᵀW, so that Σ = W⁻¹W⁻ᵀ."""
    factor = torch.linalg.solve_triangular(whitening, torch.eye(len(whitening)).to(whitening), upper=False)
    seen = factor.T @ plane
    return seen.T @ seen


@torch.no_grad()
def reconstructions(vae: Any, images: Tensor, samples: int = 3, averaged: int = 50) -> dict[str, np.ndarray]:
    """Appendix B's figure: images, some sampled reconstructions, (samples, n, ...), and the mean of many."""
    generator = torch.Generator().manual_seed(0)
    mean, log_variance = vae.encode(images)
    noise = torch.randn((averaged, *mean.shape), generator=generator)
    made = torch.stack([vae.decode(mean + (log_variance / 2).exp() * draw) for draw in noise])
    kept = {"original": images, "samples": made[:samples], "mean": made.mean(0)}
    return {name: values.numpy().astype(np.float32) for name, values in kept.items()}
