"""Class densities: equal to scipy's, and differentiable as a search needs them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from small_world import CLASSES as WORLD_CLASSES
from small_world import world

from deduce import models
from deduce.density import JITTERS, ClassDensities, DensityFit, ambiguous
from deduce.errors import InputError
from deduce.fold import features_of
from deduce.training import Batch

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


def test_a_feature_that_wakes_for_the_first_time_has_a_finite_density():
    """In a network with ReLUs some features are zero for every training image of a class."""
    features = torch.rand(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    features[:, 2] = 0
    densities = ClassDensities.fit(features, torch.arange(200) % 2, 2)
    awake = torch.tensor([[0.5, 0.5, 1e3]], dtype=torch.float64, requires_grad=True)
    log_densities = densities.log_densities(awake)
    (gradient,) = torch.autograd.grad(log_densities.sum(), awake)
    assert log_densities.isfinite().all() and gradient.isfinite().all()


def test_a_class_without_images_is_named():
    with pytest.raises(InputError, match="class 1 has 0"):
        ClassDensities.fit(torch.randn(10, 2), torch.zeros(10, dtype=torch.long), 2)


def test_densities_are_loaded_as_they_were_saved(data, densities, tmp_path):
    models.save(tmp_path / "density.safetensors", densities)
    loaded = models.load(tmp_path / "density.safetensors")
    assert torch.equal(loaded.log_densities(data[0]), densities.log_densities(data[0]))


# --- the fits that the paper's section 5 suggests


def covariance_of(densities):
    precision = densities.whitening.mT @ densities.whitening
    return torch.linalg.inv(precision)


def test_one_covariance_for_all_classes_is_the_pooled_one(data):
    features, labels = data
    densities = ClassDensities.fit(features, labels, CLASSES, covariance="shared")
    centred = torch.cat([features[labels == label] - features[labels == label].mean(0) for label in range(CLASSES)])
    pooled = centred.T @ centred / (len(features) - CLASSES)
    for covariance in covariance_of(densities):
        torch.testing.assert_close(covariance, pooled)
    of_class = scipy.stats.multivariate_normal(features[labels == 2].mean(0), pooled.numpy())
    np.testing.assert_allclose(densities.log_densities(features)[:, 2], of_class.logpdf(features.numpy()), rtol=1e-9)


def test_low_rank_keeps_the_largest_directions_and_the_variances(data, densities):
    full = covariance_of(densities)
    low = covariance_of(ClassDensities.fit(*data, CLASSES, covariance="low_rank", rank=2))
    torch.testing.assert_close(low.diagonal(dim1=1, dim2=2), full.diagonal(dim1=1, dim2=2))
    values, directions = torch.linalg.eigh(full)
    kept = (directions[:, :, -2:] * values[:, None, -2:]) @ directions[:, :, -2:].mT
    off_diagonal = 1 - torch.eye(DIMENSION, dtype=torch.float64)
    torch.testing.assert_close(low * off_diagonal, kept * off_diagonal)
    complete = covariance_of(ClassDensities.fit(*data, CLASSES, covariance="low_rank", rank=DIMENSION))
    torch.testing.assert_close(complete, full)


def test_rows_count_as_much_as_their_weights_say(data, densities):
    features, labels = data
    certain = torch.nn.functional.one_hot(labels, CLASSES).double()
    same = ClassDensities.fit(features, certain, CLASSES)
    torch.testing.assert_close(same.log_densities(features), densities.log_densities(features))
    weights = torch.rand(len(features), CLASSES, generator=torch.Generator().manual_seed(2)).double()
    weights[:300] = 0  # rows that count for no class
    weighted = ClassDensities.fit(features, weights, CLASSES)
    for label in range(CLASSES):
        rows, counts = features[300:].numpy(), weights[300:, label].numpy()
        expected = np.cov(rows.T, aweights=counts)
        np.testing.assert_allclose(weighted.mean[label], np.average(rows, axis=0, weights=counts), rtol=1e-9)
        np.testing.assert_allclose(covariance_of(weighted)[label], expected, rtol=1e-6)


def test_a_task_weighs_by_confidence_and_adds_images_between_classes():
    w = world()
    network = w.ddu.eval()

    def fitted(**settings):
        batch = Batch(w.training_images[:400], w.training_labels[:400], 0, torch.Generator().manual_seed(1))
        task = DensityFit(ClassDensities(WORLD_CLASSES, network.head.in_features), settings, network, w.vae)
        task.step(batch)
        return task.module, batch

    plain, batch = fitted()
    features = features_of(network, batch.images)
    confidence = network.head(features).softmax(1)
    weights = confidence * torch.nn.functional.one_hot(batch.labels, WORLD_CLASSES)
    weighted, _ = fitted(confidence_weighted=True)
    expected = ClassDensities.fit(features, weights, WORLD_CLASSES)
    torch.testing.assert_close(weighted.mean, expected.mean)
    assert not torch.equal(weighted.mean, plain.mean)

    generator = torch.Generator().manual_seed(1)
    between, both = ambiguous(w.vae, replace(batch, generator=generator), 150, WORLD_CLASSES)
    assert between.shape == (150, *batch.images.shape[1:]) and between.min() >= 0 and between.max() <= 1
    assert (both.sum(1) == 1).all() and ((both == 0.5).sum(1) == 2).all(), "two different classes, half each"
    # They lie between the classes: the classifier is less sure of them than of the training images.
    sure = network(between).softmax(1).amax(1)
    assert sure.mean() < confidence.amax(1).mean() - 0.05
    mixed, _ = fitted(ambiguous_images=150)
    low, high = (densities(features_of(network, between)).median() for densities in (plain, mixed))
    assert high > low + 1, "they are likelier under the densities that know them"


def test_a_model_needs_another_only_if_a_setting_asks_for_it():
    density = models.REGISTRY["density"]
    assert density.needed({"ambiguous_images": 0}) == ["classifier"] and density.needed({}) == ["classifier"]
    assert density.needed({"ambiguous_images": 10}) == ["classifier", "vae"]
