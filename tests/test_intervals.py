"""Intervals over trainings and images: worked examples, and what they cover in experiments with known variances."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from deduce.evaluation import intervals

TARGETS = 9
# Standard deviations of the effects of a training, an image, both together, and the rest (targets).
SOURCES = {
    "trainings matter little": (0.5, 3, 1, 5),
    "trainings matter as much": (1, 3, 2, 5),
    "trainings matter most": (3, 3, 2, 5),
}


def made(random, repeats: int, trainings: int, images: int, sds, missing: float) -> tuple[np.ndarray, np.ndarray]:
    """Experiments whose true mean is 0: the values (repeats, trainings, images, targets), and which were found."""
    shapes = (trainings, 1, 1), (1, images, 1), (trainings, images, 1), (trainings, images, TARGETS)
    values = sum(sd * random.standard_normal((repeats, *shape)) for sd, shape in zip(sds, shapes, strict=True))
    found = random.random(values.shape) >= missing
    return values + np.linspace(-3, 3, TARGETS), found


def influences(values: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The means of many experiments, and the influence of each training and image."""
    count = found.sum((1, 2, 3), keepdims=True)
    means = (values * found).sum((1, 2, 3), keepdims=True) / count
    return means.ravel(), ((values - means) * found / count).sum(-1)


def frame(values: np.ndarray, found: np.ndarray) -> pd.DataFrame:
    """One experiment as the pairs of a results table."""
    training, image, target = np.nonzero(found)
    columns = {"training_seed": 1 + training, "seed": 1 + image // 10, "image": image, "target": target}
    return pd.DataFrame(columns | {"value": values[found]})


@pytest.mark.parametrize("missing", [0, 0.2])
@pytest.mark.parametrize("images", [20, 50])
@pytest.mark.parametrize("trainings", [3, 5])
@pytest.mark.parametrize("sds", SOURCES.values(), ids=SOURCES)
def test_the_interval_covers_the_truth_and_fails_to_without_the_trainings(sds, trainings, images, missing):
    random = np.random.default_rng([trainings, images])
    values, found = made(random, 2000, trainings, images, sds, missing)
    means, influence = influences(values, found)
    training, image = intervals.variances(influence)
    covered = np.abs(means) < intervals.half_width(training, image, trainings, images)
    assert 0.92 <= covered.mean() <= 0.98
    # A direct simulation: the variance of the means of all these experiments.
    assert (training + image).mean() == pytest.approx(means.var(), rel=0.15)
    only_images = np.abs(means) < intervals.half_width(0, image, trainings, images)
    assert only_images.mean() < covered.mean() - 0.01
    if sds is SOURCES["trainings matter most"]:
        assert only_images.mean() < 0.7
    of_pairs = values.reshape(2000, -1).std(axis=1) / np.sqrt(found.sum((1, 2, 3)))
    assert (np.abs(means) < 1.96 * of_pairs).mean() < 0.8


def test_the_interval_does_not_narrow_when_targets_are_repeated():
    random = np.random.default_rng(3)
    values, found = made(random, 1, 3, 20, SOURCES["trainings matter as much"], 0)
    once, twice = (
        intervals.mean(pairs["value"], pairs)
        for pairs in (frame(values[0], found[0]), pd.concat([frame(values[0], found[0])] * 2))
    )
    assert once.interval() == pytest.approx(twice.interval())


def test_the_variance_of_a_balanced_experiment_is_that_of_the_analysis_of_variance():
    random = np.random.default_rng(5)
    values, found = made(random, 1, 4, 12, (4, 2, 1, 1), 0)
    cells = values[0].mean(-1)
    by_training, by_image, mean = cells.mean(1), cells.mean(0), cells.mean()
    rest = cells - by_training[:, None] - by_image + mean
    squares = 12 * by_training.var(ddof=1), 4 * by_image.var(ddof=1), (rest**2).sum() / (3 * 11)
    estimate = intervals.mean(frame(values[0], found[0])["value"], frame(values[0], found[0]))
    assert estimate.value == pytest.approx(mean)
    assert estimate.variances == pytest.approx(((squares[0] - squares[2]) / 48, squares[1] / 48))


def test_with_one_training_the_interval_is_students_over_the_means_of_images():
    random = np.random.default_rng(7)
    values, found = made(random, 1, 1, 15, (0, 3, 0, 5), 0)
    pairs = frame(values[0], found[0])
    estimate, by_image = intervals.mean(pairs["value"], pairs), values[0, 0].mean(-1)
    assert estimate.interval() == pytest.approx(stats.t.interval(0.95, 14, by_image.mean(), stats.sem(by_image)))
    assert estimate.p() == pytest.approx(stats.ttest_1samp(by_image, 0).pvalue)
    assert estimate.p(0.7) == pytest.approx(stats.ttest_1samp(by_image, 0.7).pvalue)


def test_where_only_trainings_differ_the_interval_is_students_over_the_means_of_trainings():
    means = np.array([1.0, 2.0, 4.5])
    values = np.broadcast_to(means[:, None, None], (3, 8, TARGETS))
    pairs = frame(values, np.full(values.shape, True))
    expected = stats.t.interval(0.95, 2, means.mean(), stats.sem(means))
    assert intervals.mean(pairs["value"], pairs).interval() == pytest.approx(expected)


def test_the_interval_of_a_ratio_covers_the_ratio():
    random = np.random.default_rng(11)
    truth, covered = 40 / 15, 0
    for _ in range(300):
        values, found = made(random, 2, 5, 30, (1, 2, 1, 3), 0.1)
        far, near = (frame(values[i] + level, found[i]) for i, level in ((0, 40), (1, 15)))
        low, high = (intervals.mean(far["value"], far) / intervals.mean(near["value"], near)).interval()
        covered += low < truth < high
    assert 0.92 <= covered / 300 <= 0.985


def test_a_paired_difference_is_that_of_its_two_means():
    random = np.random.default_rng(13)
    values, found = made(random, 1, 3, 20, (1, 3, 1, 5), 0.2)
    pairs = frame(values[0], found[0])
    other = pairs["value"] + random.normal(1, 0.5, len(pairs))
    paired = intervals.mean(other - pairs["value"], pairs)
    apart = intervals.mean(other, pairs) - intervals.mean(pairs["value"], pairs)
    assert apart.interval() == pytest.approx(paired.interval()) and apart.value == pytest.approx(paired.value)


def test_a_rate_has_wilsons_interval_where_pairs_are_independent():
    pairs = pd.DataFrame({"training_seed": 1, "seed": 1, "image": np.arange(400), "target": 0})
    rate = intervals.mean(pd.Series(np.arange(400) % 10 == 0), pairs)
    assert rate.rate_interval() == pytest.approx(stats.binomtest(40, 400).proportion_ci(method="wilson"), abs=1e-3)
    never = intervals.mean(pd.Series(np.zeros(400)), pairs).rate_interval()
    assert never == pytest.approx(stats.binomtest(0, 400).proportion_ci(method="wilson"), abs=1e-12)


def test_small_p_values_and_estimates_without_spread():
    pairs = pd.DataFrame({"training_seed": 1, "seed": 1, "image": np.arange(100), "target": 0})
    values = pd.Series(np.linspace(9, 11, 100))
    expected = stats.ttest_1samp(values, 0).pvalue
    assert intervals.mean(values, pairs).p() == pytest.approx(expected, rel=1e-6) and expected < 1e-80
    constant = intervals.mean(pd.Series(np.ones(100)), pairs)
    assert constant.interval() == (1, 1) and np.isnan(constant.p())
    assert np.isnan(intervals.mean(values[:9], pairs[:9].assign(image=0)).interval()).all()
    assert np.isnan(intervals.mean(values[:0], pairs[:0]).value)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_mean_of_no_pairs_compares_with_nothing(swapped):
    pairs = pd.DataFrame({"training_seed": [1, 1], "seed": [1, 1], "image": [0, 1]})
    known, unknown = (intervals.mean(pd.Series(float(n) for n in range(len(p))), p) for p in (pairs, pairs.iloc[:0]))
    difference = unknown - known if swapped else known - unknown
    assert np.isnan(difference.value) and np.isnan(difference.interval()).all()
