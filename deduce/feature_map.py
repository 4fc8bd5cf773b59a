"""Figure 2 from real features: two classes and the path of one counterfactual, in a plane of the feature space.

The plane's first direction is that of the difference between the logits of the two classes: their decision boundary is
exactly a line across it. The second is the direction at right angles to the first in which the features vary most.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from deduce.density import ClassDensities
from deduce.shards import Pairs, Shard


def choose_row(shard: Shard, preferred: tuple[int, int] | None = None) -> int | None:
    """The row to show: the preferred (image, target) if it was found, else the row with the median number of steps.

    None if no counterfactual was found that differs from its original.
    """
    rows = np.flatnonzero(shard.found & (shard.iterations > 0))
    for row in rows:
        if (int(shard.image[row]), int(shard.target[row])) == preferred:
            return int(row)
    return int(rows[np.argsort(shard.iterations[rows], kind="stable")[len(rows) // 2]]) if len(rows) else None


def states(shard: Shard, pairs: Pairs, row: int) -> np.ndarray:
    """The images from the original to the counterfactual, (steps + 1, channels, height, width)."""
    original = pairs.original[row]
    if shard.path_offset is None or shard.path_pixel is None or shard.path_value is None:
        return np.stack([original, shard.counterfactual[row]])
    start, stop = shard.path_offset[row : row + 2]
    images = np.repeat(original[None], stop - start + 1, axis=0)
    changes = zip(shard.path_pixel[start:stop], shard.path_value[start:stop], strict=True)
    for step, (pixel, value) in enumerate(changes, 1):
        images.reshape(len(images), -1)[step:, pixel] = value  # a change stays in all later images
    return images


@torch.no_grad()
def feature_map(
    classifier: Any, densities: ClassDensities, images: dict[int, Tensor], path: Tensor
) -> dict[str, np.ndarray]:
    """What `deduce.evaluation.figures.feature_map` draws.

    images: of the original's class and of the target's, in this order, (n, channels, height, width) each.
    path: the images from the original to the counterfactual, (steps + 1, channels, height, width).
    """
    first, second = images
    features = {label: classifier.features(batch).double() for label, batch in images.items()}
    identity = torch.eye(features[first].shape[1], device=features[first].device)
    bias = classifier.head(torch.zeros_like(identity[:1])).double()[0]
    weight = classifier.head(identity).double() - bias  # of a linear head: (dimension, classes)
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
        "means": densities.mean[[first, second]] @ plane,
        "covariances": torch.stack([_covariance(densities.whitening[label], plane) for label in images]),
        "path": classifier.features(path).double() @ plane,
        "boundary": torch.stack([normal.norm(), torch.zeros_like(offset), offset]),
    }
    return {name: values.cpu().numpy() for name, values in result.items()}


def _covariance(whitening: Tensor, plane: Tensor) -> Tensor:
    """A class's covariance in the plane. Its density stores W with Σ⁻¹ = WᵀW, hence Σ = W⁻¹W⁻ᵀ."""
    factor = torch.linalg.solve_triangular(whitening, torch.eye(len(whitening)).to(whitening), upper=False)
    projected = factor.T @ plane
    return projected.T @ projected
