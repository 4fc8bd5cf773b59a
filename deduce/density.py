"""Class-conditional densities of a classifier's features: one Gaussian per class, with full covariance as in the paper.

The paper's section 5 suggests other fits, which are settings: simpler covariances, weights of the training images, and
images between two classes.

Everything is in float64: the features of a class lie close to a subspace, and their covariance is badly conditioned.
"""

from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.errors import InputError
from deduce.fold import BLOCK, device_of, features_of
from deduce.training import Batch, Task

# Added to the variances: the first jitter that makes every covariance positive definite. Networks with spectral
# normalisation need none. A feature that never wakes in a class, as ReLU networks have them, has no variance there; the
# authors' list starts at the smallest float, whose density overflows as soon as an image wakes that feature.
JITTERS = [0.0, *(10.0**power for power in range(-6, 0))]


Covariance = Literal["full", "shared", "low_rank"]


class ClassDensities(nn.Module):
    """log p(features | class). The triangular factors are inverted once; a density is then a single product."""

    mean: Tensor
    whitening: Tensor
    log_normaliser: Tensor
    jitter: Tensor

    def __init__(self, classes: int, dimension: int) -> None:
        super().__init__()
        self.arguments = dict(classes=classes, dimension=dimension)
        self.register_buffer("mean", torch.zeros(classes, dimension, dtype=torch.float64))
        # W of each class, the inverse Cholesky factor: (z - mean)ᵀ Σ⁻¹ (z - mean) = ‖W (z - mean)‖².
        self.register_buffer("whitening", torch.eye(dimension, dtype=torch.float64).repeat(classes, 1, 1))
        normaliser = torch.full((classes,), -dimension / 2 * np.log(2 * np.pi), dtype=torch.float64)
        self.register_buffer("log_normaliser", normaliser)
        self.register_buffer("jitter", torch.zeros((), dtype=torch.float64))

    @classmethod
    @torch.no_grad()
    def fit(
        cls,
        features: Tensor,
        labels: Tensor,
        classes: int,
        covariance: Covariance = "full",
        rank: int = 16,
    ) -> Self:
        """Mean and covariance (divisor n - 1) of each class; features: (n, dimension).

        labels: (n,) integer; or (n, classes), how much each row counts for each class, from 0 to 1. covariance: `full`;
        `shared`, the mean of the classes' covariances; or `low_rank`, of which the `rank` largest directions are kept,
        and of the rest the variances.
        """
        features = features.double()
        densities = cls(classes, features.shape[1]).to(features.device)
        covariances, counts = torch.empty_like(densities.whitening), features.new_zeros(classes)
        for label in range(classes):
            weights = labels[:, label].double() if labels.ndim == 2 else (labels == label).double()
            rows, weights = features[weights > 0], weights[weights > 0]
            if len(rows) < 2:
                raise InputError(f"class {label} has {len(rows)} training images; a density needs at least 2.")
            counts[label] = weights.sum()
            if (weights == 1).all():
                densities.mean[label], covariances[label] = rows.mean(0), rows.T.cov()
            else:
                densities.mean[label] = weights @ rows / weights.sum()
                covariances[label] = rows.T.cov(aweights=weights)
        if covariance == "shared":
            covariances[:] = ((counts - 1)[:, None, None] * covariances).sum(0) / (counts - 1).sum()
        elif covariance == "low_rank":
            covariances = _low_rank(covariances, rank)
        densities._factorise(covariances)
        return densities

    def _factorise(self, covariance: Tensor) -> None:
        identity = torch.eye(covariance.shape[-1]).to(covariance)
        for jitter in JITTERS:
            jittered = covariance + jitter * identity
            if jitter and torch.equal(jittered, covariance):
                continue  # too small to change any variance
            factor, failed = torch.linalg.cholesky_ex(jittered)
            whitening = torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=False)
            if not failed.any() and whitening.isfinite().all():
                self.whitening.copy_(whitening)
                self.log_normaliser -= factor.diagonal(dim1=1, dim2=2).log().sum(1)
                self.jitter.fill_(jitter)
                return
        raise InputError("the features' covariance is not positive definite, even with 0.1 added to every variance.")

    def log_density(self, features: Tensor, targets: Tensor) -> Tensor:
        """log p(features[i] | class targets[i]), (n,) in float64; differentiable in features (n, dimension)."""
        if features.device.type != "cpu":  # to ask which classes are present, the host would have to wait
            whitened = (features.double() - self.mean[:, None]) @ self.whitening.mT  # (classes, n, dimension)
            by_class = self.log_normaliser[:, None] - whitened.square().sum(2) / 2
            return by_class.gather(0, targets[None])[0]
        order = targets.argsort(stable=True)
        present, counts = targets[order].unique_consecutive(return_counts=True)
        groups = features[order].split(counts.tolist())
        sorted_densities = [self._of_class(rows, label) for label, rows in zip(present.tolist(), groups, strict=True)]
        return torch.cat([features.new_empty(0, dtype=torch.float64), *sorted_densities])[order.argsort()]

    def log_densities(self, features: Tensor) -> Tensor:
        """log p(features | class) for every class: (n, classes) in float64."""
        return torch.stack([self._of_class(features, label) for label in range(len(self.mean))], dim=1)

    def forward(self, features: Tensor) -> Tensor:
        """log p(features) under the mixture of the classes with equal weights, (n,)."""
        return self.log_densities(features).logsumexp(1) - np.log(len(self.mean))

    def _of_class(self, features: Tensor, label: int) -> Tensor:
        whitened = (features.double() - self.mean[label]) @ self.whitening[label].T
        return self.log_normaliser[label] - whitened.square().sum(1) / 2


def _low_rank(covariance: Tensor, rank: int) -> Tensor:
    """The largest `rank` directions of each covariance (…, d, d), and the variances that they leave."""
    values, directions = torch.linalg.eigh(covariance)
    directions = directions[..., -rank:] * values[..., None, -rank:].clamp_min(0).sqrt()
    kept = directions @ directions.mT
    return kept + (covariance - kept).diagonal(dim1=-2, dim2=-1).clamp_min(0).diag_embed()


class DensityFit(Task):
    """Fits the densities to the features of the training images: no epochs, no optimiser."""

    def __init__(self, densities: ClassDensities, settings: dict[str, Any], classifier: Any, vae: Any = None) -> None:
        self.module: ClassDensities = densities
        self.settings, self.classifier, self.vae, self.optimisers = settings, classifier, vae, []

    @torch.no_grad()
    def step(self, batch: Batch) -> dict[str, Tensor]:
        """Fits to all images at once; the record has the jitter and the quartiles of the images' log-density."""
        features = features_of(self.classifier, batch.images)
        labels, classes, settings = batch.labels.to(features.device), len(self.module.mean), self.settings
        weights, everything = labels, features
        if settings.get("confidence_weighted"):
            confidence = self.classifier.head(features).softmax(1)
            weights = confidence * F.one_hot(labels, classes)
        if count := settings.get("ambiguous_images"):
            images, both = ambiguous(self.vae, batch, count, classes)
            everything = torch.cat([features, features_of(self.classifier, images)])
            weights = torch.cat([weights if weights.ndim == 2 else F.one_hot(labels, classes), both.to(labels.device)])
        kind = {key: settings[key] for key in ("covariance", "rank") if key in settings}
        self.module = ClassDensities.fit(everything, weights, classes, **kind)
        inside = self.module.log_density(features, labels)
        low, median, high = torch.quantile(inside, inside.new_tensor([0.25, 0.5, 0.75]))
        return {"jitter": self.module.jitter, "lower_quartile": low, "median": median, "upper_quartile": high}


@torch.no_grad()
def ambiguous(vae: Any, batch: Batch, count: int, classes: int) -> tuple[Tensor, Tensor]:
    """Images halfway between two of different classes in the VAE's latent space, which belong to both by half.

    Returns images (count, …) and how much each counts for each class, (count, classes).
    """
    first, second = (torch.randint(len(batch.images), (count,), generator=batch.generator) for _ in range(2))
    while (same := batch.labels[first] == batch.labels[second]).any():
        second[same] = torch.randint(len(batch.images), (int(same.sum()),), generator=batch.generator)
    blocks = zip(first.split(BLOCK), second.split(BLOCK), strict=True)
    means = [[vae.encode(batch.images[rows].to(device_of(vae)))[0] for rows in block] for block in blocks]
    images = torch.cat([vae.decode((left + right) / 2) for left, right in means])
    return images, (F.one_hot(batch.labels[first], classes) + F.one_hot(batch.labels[second], classes)) / 2
