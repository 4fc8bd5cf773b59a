"""How far samples are from the images that they should look like: a simple distance of their statistics."""

import torch
from torch import Tensor


def _covariance(sample: Tensor) -> Tensor:
    return torch.atleast_2d(sample.T.cov())  # of a single dimension, `cov` returns a number


class Reference:
    """A Gaussian with the mean and covariance of a sample (n, d), from which distances are measured."""

    def __init__(self, sample: Tensor) -> None:
        sample = sample.double()
        self.mean, self.covariance = sample.mean(0), _covariance(sample)
        values, vectors = torch.linalg.eigh(self.covariance)
        self.root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T

    def distance(self, sample: Tensor) -> float:
        """The squared Fréchet distance to the Gaussian of another sample (m, d)."""
        sample = sample.double()
        difference, covariance = (self.mean - sample.mean(0)).square().sum(), _covariance(sample)
        cross = torch.linalg.eigvalsh(self.root @ covariance @ self.root).clamp(min=0).sqrt().sum()
        return (difference + self.covariance.trace() + covariance.trace() - 2 * cross).item()


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """Squared Fréchet distance of the Gaussians with the means and covariances of two samples (n, d), (m, d)."""
    return Reference(first).distance(second)


class PrincipalComponents:
    """Those of the pixels of images (n, channels, height, width), in which samples are compared with the images."""

    def __init__(self, images: Tensor, components: int = 50) -> None:
        pixels = images.flatten(1).double()
        _, vectors = torch.linalg.eigh(pixels.T.cov())  # ascending
        self.basis = vectors[:, -components:]
        self.images = pixels @ self.basis

    def distance(self, samples: Tensor) -> float:
        """The squared Fréchet distance of samples (m, channels, height, width) and the images."""
        return frechet_distance(samples.flatten(1).double() @ self.basis, self.images)
