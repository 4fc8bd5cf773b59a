"""Class densities: equal to scipy's, and differentiable as a search needs them."""

import numpy as np
import pytest
import scipy.stats
import torch

from deduce import models
from deduce.density import JITTERS, ClassDensities
from deduce.errors import InputError

CLASSES, DIMENSION = 4, 6


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (600,), generator=generator)
    mixing = torch.randn(CLASSES, DIMENSION, DIMENSION, generator=generator, dtype=torch.float64)
    noise = torch.randn(600, DIMENSION, generator=generator, dtype=torch.float64)
    return torch.einsum("nij,nj->ni", mixing[labels], noise) + labels[:, None], labels


@pytest.fixture(scope="module")
def densities(data):
    return ClassDensities.fit(*data, CLASSES)


def test_agrees_with_scipy(data, densities):
    features, labels = data
    for label in range(CLASSES):
        rows = features[labels == label].numpy()
        expected = scipy.stats.multivariate_normal(rows.mean(0), np.cov(rows.T)).logpdf(features.numpy())
        np.testing.assert_allclose(densities.log_densities(features)[:, label], expected, rtol=1e-9)
    assert densities.jitter == 0


def test_each_row_has_the_density_of_its_target(data, densities):
    features, _ = data
    targets = torch.randint(CLASSES, (len(features),), generator=torch.Generator().manual_seed(1))
    expected = densities.log_densities(features).gather(1, targets[:, None]).squeeze(1)
    torch.testing.assert_close(densities.log_density(features, targets), expected)
    assert densities.log_density(features[:0], targets[:0]).shape == (0,)


def test_mixture_has_equal_weights(data, densities):
    features, _ = data
    torch.testing.assert_close(densities(features).exp(), densities.log_densities(features).exp().mean(1))


def test_gradient(data, densities):
    features = data[0][:5].clone().requires_grad_()
    targets = torch.tensor([3, 0, 3, 1, 2])
    assert torch.autograd.gradcheck(lambda rows: densities.log_density(rows, targets), features)


def test_float32_features_get_float32_gradients(data, densities):
    features = data[0][:5].float().requires_grad_()
    log_density = densities.log_density(features, torch.tensor([3, 0, 3, 1, 2]))
    (gradient,) = torch.autograd.grad(log_density.sum(), features)
    assert log_density.dtype == torch.float64 and gradient.dtype == torch.float32


@pytest.mark.parametrize("columns, scale", [([0, 1, 1, 2], 1.0), ([0, 1, 1, 2], 1e3), ([0, 0, 0, 0], 1e6)])
def test_jitter_is_the_smallest_that_works(columns, scale):
    """Equal features make every covariance singular: rounding alone decides which jitter is the first to work."""
    features = torch.randn(100, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    features = features[:, columns] * scale
    labels = torch.arange(100) % 2
    densities = ClassDensities.fit(features, labels, 2)
    covariance = torch.stack([features[labels == label].T.cov() for label in range(2)])

    def works(jitter):
        factor, failed = torch.linalg.cholesky_ex(covariance + jitter * torch.eye(4, dtype=torch.float64))
        return not failed.any() and factor.inverse().isfinite().all()

    assert densities.jitter == next(jitter for jitter in JITTERS if works(jitter))
    assert densities.log_densities(features).isfinite().all()


def test_features_without_variance_need_jitter():
    densities = ClassDensities.fit(torch.zeros(100, 4, dtype=torch.float64), torch.arange(100) % 2, 2)
    assert densities.jitter > 0 and densities.whitening.isfinite().all()


def test_a_class_without_images_is_named():
    with pytest.raises(InputError, match="class 1 has 0"):
        ClassDensities.fit(torch.randn(10, 2), torch.zeros(10, dtype=torch.long), 2)


def test_densities_are_loaded_as_they_were_saved(data, densities, tmp_path):
    models.save(tmp_path / "density.safetensors", densities)
    loaded = models.load(tmp_path / "density.safetensors")
    assert torch.equal(loaded.log_densities(data[0]), densities.log_densities(data[0]))
