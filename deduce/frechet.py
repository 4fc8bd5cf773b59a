"""How far samples are from the images that they should look like: a simple distance of their statistics."""

import torch
from torch import Tensor


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """Squared Fréchet distance of the Gaussians with the means and covariances of two samples (n, d), (m, d)."""
    first, second = first.double(), second.double()
    difference = (first.mean(0) - second.mean(0)).square().sum()
    values, vectors = torch.linalg.eigh(first.T.cov())
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T  # of the first covariance
    cross = torch.linalg.eigvalsh(root @ second.T.cov() @ root).clamp(min=0).sqrt().sum()
    spread = first.var(0).sum() + second.var(0).sum()  # traces of the covariances
    return (difference + spread - 2 * cross).item()


def sample_distance(samples: Tensor, images: Tensor, components: int = 50) -> float:
    """Fréchet distance of samples and images (n, channels, height, width) in the images' principal components."""
    pixels = images.flatten(1).double()
    _, vectors = torch.linalg.eigh(pixels.T.cov())  # ascending
    basis = vectors[:, -components:]
    return frechet_distance(samples.flatten(1).double() @ basis, pixels @ basis)
