"""Second opinions on realism, beyond the paper: IM1 and IM2 (Van Looveren and Klaise), and the classifier's density.

docs/realism.md says what each of them can and cannot tell.
"""

import numpy as np
import torch
from torch import nn

from deduce.density import ClassDensities
from deduce.models.class_autoencoders import ClassAutoencoders

EPSILON = 1e-8  # keeps the ratios finite


@torch.no_grad()
def interpretability(
    autoencoders: ClassAutoencoders, images: np.ndarray, labels: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """IM1 and IM2 of images (n, 1, height, width), counterfactuals from `labels` to `targets`: two arrays (n,).

    IM1: squared error of the target class's autoencoder over that of the original class's; it compares two classes, and
    is NaN where they are the same. IM2: squared difference of what the autoencoders of the target class and of all
    classes make of the image, over the image's L1 norm. Low is good, for both.
    """
    pixels = torch.as_tensor(images).flatten(1)
    made = autoencoders.reconstructions(torch.as_tensor(images))
    row = torch.arange(len(pixels))
    by_target, by_label = made[torch.as_tensor(targets).long(), row], made[torch.as_tensor(labels).long(), row]
    im1 = (pixels - by_target).square().sum(1) / ((pixels - by_label).square().sum(1) + EPSILON)
    im2 = (by_target - made[-1]).square().sum(1) / (pixels.abs().sum(1) + EPSILON)
    return np.where(labels == targets, np.nan, im1.numpy()), im2.numpy()


@torch.no_grad()
def log_density(
    classifier: nn.Module, densities: ClassDensities, images: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """log p(features | target) of images (n, 1, height, width) under the classifier's class densities: (n,)."""
    if not len(images):
        return np.empty(0)
    features = torch.cat([classifier.features(some) for some in torch.as_tensor(images).split(500)])  # type: ignore[operator]
    return densities.log_density(features, torch.as_tensor(targets).long()).numpy()
