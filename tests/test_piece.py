"""PIECE does what the textbook does for every pair; its goal changes exceptional features only."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import textbook_related as textbook
import torch
from related_case import depends_on_the_pair_alone, in_double, open_pairs
from scipy import stats
from small_world import CLASSES, Drawing, world

from deduce import compute
from deduce.errors import InputError
from deduce.methods.piece import FAMILIES, PIECE, GeneratorModels, Hurdles, fitted, gamma_shape

SMALL = PIECE(max_iterations=40, step_size=0.1, inversion_steps=12, inversion_starts=2)


@functools.cache
def hurdles():
    return PIECE().hurdles(world().plain, world().training_images)


@functools.cache
def blackboard():
    """The textbook's hurdle models, by class and feature."""
    with torch.no_grad():
        features = world().plain.features(world().training_images)
        predicted = world().plain.head(features).argmax(1)
    by_class = [features[predicted == label].double().numpy() for label in range(CLASSES)]
    return [[textbook.hurdle(column) for column in of_class.T] for of_class in by_class]


def test_hurdle_models_agree_with_scipy():
    ours, d = hurdles(), hurdles().on.shape[1]
    probe = np.linspace(0.01, 2, 7)
    for label in range(CLASSES):
        for feature in range(0, d, 4):
            share, fit = blackboard()[label][feature]
            assert ours.on[label, feature] == pytest.approx(share)
            assert (ours.family[label, feature] < 0) == (fit is None)
            if fit is not None:
                values = np.zeros((len(probe), d))
                values[:, feature] = probe
                below = ours.below(values, np.full(len(probe), label))[:, feature]
                np.testing.assert_allclose(below, fit.cdf(probe), atol=1e-4)
                assert ours.expected[label, feature] == pytest.approx(fit.mean(), rel=1e-4)
    assert 0 < (ours.on < 1).mean() < 1 and len(np.unique(ours.family)) > 1


@pytest.mark.parametrize("family, sample", [
    (0, stats.norm(5, 0.5)), (1, stats.gamma(2.0, 0, 0.7)), (1, stats.gamma(4, 3, 0.7)), (2, stats.expon(3, 2)),
])  # fmt: skip
def test_the_best_of_six_distributions_is_chosen(family, sample):
    values = np.sort(sample.rvs(2000, random_state=0))
    chosen, (shape, location, scale) = fitted(values)
    of_shape = (shape,) if FAMILIES[chosen].shapes else ()
    fit = FAMILIES[chosen](*of_shape, loc=location, scale=scale)
    assert stats.kstest(values, fit.cdf).pvalue > 0.01 and fit.mean() == pytest.approx(values.mean(), rel=0.02)
    assert chosen == family or family == 0  # a gamma distribution can be nearly normal
    spread = np.log(values.mean()) - np.log(values).mean()
    assert gamma_shape(spread) == pytest.approx(stats.gamma.fit(values, floc=0)[0], rel=1e-3)


def goals(n=60, method=SMALL):
    images, targets = open_pairs(n)
    with torch.no_grad():
        features = world().plain.features(images).double().numpy()
    weights = world().plain.head.weight.detach().double().numpy()
    return features, weights, targets.numpy(), goal_of(method, hurdles(), weights, features, targets.numpy())


def goal_of(method, models, weights, features, targets):
    return method.goal(models, features, method.are_exceptional(models, weights, features, targets), targets)


def test_the_goal_is_the_textbooks_and_differs_in_exceptional_features_only():
    features, weights, targets, goal = goals()
    expected = np.stack([
        textbook.piece_goal(image, weights[target], blackboard()[target], SMALL.improbable)
        for image, target in zip(features, targets, strict=True)
    ])  # fmt: skip
    assert (np.abs(goal - expected).max(1) < 1e-3).mean() >= 0.99
    changed = goal != features
    assert 0.02 < changed.mean() < 0.6
    assert SMALL.are_improbable(hurdles(), features, targets)[changed].all(), "only exceptional features change"
    np.testing.assert_array_equal(goal[changed], hurdles().expected[targets][changed])
    gain = ((goal - features) * weights[targets])[changed]
    assert (gain > -1e-9).mean() > 0.95 and ((goal - features) * weights[targets]).sum(1).min() >= 0
    strict = replace(SMALL, improbable=1e-4)
    fewer = goal_of(strict, hurdles(), weights, features, targets) != features
    assert fewer.sum() < changed.sum()


def test_every_pair_agrees_with_the_textbook(double):
    network, drawing, (images, targets) = in_double(world().plain), in_double(Drawing()), open_pairs(50)
    result = SMALL.generate(network, drawing, hurdles(), images, targets)
    starts = torch.stack([torch.randn(8, generator=compute.generator("inversion", start)) for start in range(2)])
    alike, latents = 0, {}
    for row, (image, target) in enumerate(zip(images.double(), targets.tolist(), strict=True)):
        key = image.numpy().tobytes()
        if key not in latents:
            inversion = (SMALL.inversion_steps, SMALL.inversion_step_size)
            latents[key] = textbook.piece_inversion(network, drawing.generator, image, starts, *inversion)
        with torch.no_grad():
            features = network.features(drawing.generator(latents[key][None]))[0].numpy()
        weight = network.head.weight.numpy()[target]
        goal = textbook.piece_goal(features, weight, blackboard()[target], SMALL.improbable)
        expected, found = textbook.piece(
            network, drawing.generator, latents[key], torch.from_numpy(goal), target, SMALL
        )
        alike += bool((result.counterfactual[row] - expected).abs().max() < 1e-3) and found == bool(result.found[row])
    assert alike >= 0.99 * len(images) and 0.2 < result.found.double().mean() < 1
    assert (result.iterations == SMALL.max_iterations).all(), "it never stops early"


def test_a_row_does_not_depend_on_the_others(double):
    depends_on_the_pair_alone(SMALL, (in_double(world().plain), in_double(Drawing()), hurdles()), *open_pairs(20))


def test_the_real_image_can_tell_which_features_are_exceptional():
    network, goals = world().plain, {}

    class Recorded(PIECE):
        def start(self, models, rows):
            started = super().start(models, rows)
            features = network.features(models.generator(started.latent)).double().numpy()
            goals.update(zip(rows.index.tolist(), zip(features, started.goal.numpy(), strict=True), strict=True))
            return started

    images, targets = open_pairs(20)
    method = Recorded(**replace(SMALL, features_of="real", max_iterations=1).settings())
    method.generate(network, Drawing(), hurdles(), images, targets)
    with torch.no_grad():
        real = network.features(images).double().numpy()
    weights, otherwise = network.head.weight.detach().double().numpy(), 0
    for row, target in enumerate(targets.tolist()):
        generated, goal = goals[row]
        of_target = weights[target], blackboard()[target], SMALL.improbable
        np.testing.assert_allclose(goal, textbook.piece_goal(generated, *of_target, query=real[row]), atol=1e-3)
        otherwise += not np.allclose(goal, textbook.piece_goal(generated, *of_target), atol=1e-3)
    assert otherwise > 10


def test_more_steps_and_starts_invert_better():
    images, _ = open_pairs(10)
    models = GeneratorModels(world().plain, generator=Drawing().generator)

    with torch.no_grad():
        features = world().plain.features(images)

    def error(**settings):
        latent = replace(SMALL, **settings).invert(models, images)
        with torch.no_grad():
            return SMALL.distance(models, latent, images, features)

    few = error(inversion_steps=5, inversion_starts=1)
    assert (error(inversion_steps=60, inversion_starts=1) < few).all()
    more_starts = error(inversion_steps=5, inversion_starts=4)
    assert (more_starts <= few + 1e-6).all() and (more_starts < few - 1e-3).any()


def test_a_feature_that_is_never_on_in_the_target_stays():
    features, labels = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [4.0, 0.5]]), np.array([0, 0, 1, 1])
    tiny = Hurdles.fit(features, labels, 2)
    assert tiny.family[0, 0] == -1 and tiny.on.tolist() == [[0, 1], [1, 0.5]]
    weights = np.array([[-1.0, 1.0], [1.0, 1.0]])
    goal = goal_of(SMALL, tiny, weights, np.array([[9.0, 0.0]]), np.array([0]))
    assert goal.tolist() == [[9.0, 1.5]]


def test_impossible_settings_are_refused():
    with pytest.raises(InputError, match="inversion_starts is 0"):
        PIECE(inversion_starts=0)
    with pytest.raises(InputError, match="features_of is"):
        PIECE(features_of="both")
