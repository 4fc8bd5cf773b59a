"""Intervals that hold for another training of the networks and for other images (docs/statistics.md has the formulas).

Every image is answered by the networks of every training, so a mean varies with both. An `Estimate` is a mean, or a
difference or ratio of means, with its *influence*: how far each training and image moved the value. The sum of squares
of the influence by training and by image gives the variance. The targets of one image are not independent; they lie
in one cell of the influence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from deduce.evaluation.metrics import FAILURE, Metric

COVERAGE = 0.95
SMALLEST_P = 1e-100
ROUNDING = 1e-9  # a mean of ones is 1 up to rounding
IMAGE = ["seed", "image"]


def variances(influence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The variance of an estimate that trainings add, and that of images: influence is (..., trainings, images).

    The variance of images contains the interaction of both, which is therefore subtracted from that of trainings.
    """
    trainings, images = influence.shape[-2:]
    if images < 2:
        return np.full(influence.shape[:-2], np.nan), np.full(influence.shape[:-2], np.nan)
    of_training, of_image = influence.sum(-1), influence.sum(-2)
    image = images / (images - 1) * (of_image**2).sum(-1)
    if trainings < 2:
        return np.zeros_like(image), image
    training = trainings / (trainings - 1) * (of_training**2).sum(-1)
    rest = influence - of_training[..., None] / images - of_image[..., None, :] / trainings
    both = trainings * images / ((trainings - 1) * (images - 1)) * (rest**2).sum((-2, -1))
    return np.maximum(training - both, 0), image


def half_width(training: Any, image: Any, trainings: Any, images: Any, alpha: Any = 1 - COVERAGE) -> Any:
    """Half of the interval that misses with probability alpha: each variance with its own quantile of Student's t."""
    of_training = stats.t.isf(np.asarray(alpha) / 2, np.maximum(np.asarray(trainings) - 1, 1)) * np.sqrt(training)
    of_image = stats.t.isf(np.asarray(alpha) / 2, np.maximum(np.asarray(images) - 1, 1)) * np.sqrt(image)
    return np.hypot(of_training, of_image)


def p_values(distance: Any, training: Any, image: Any, trainings: Any, images: Any) -> np.ndarray:
    """The smallest alpha whose interval excludes a value at this distance, elementwise; NaN without a variance."""
    distance, training, image = (np.asarray(values, float) for values in (distance, training, image))
    low, high = np.full(distance.shape, np.log10(SMALLEST_P)), np.zeros(distance.shape)
    for _ in range(50):
        middle = (low + high) / 2
        inside = half_width(training, image, trainings, images, 10**middle) > np.abs(distance)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    p = np.where(distance == 0, 1.0, 10**high)
    return np.where(training + image > 0, p, np.nan)


def wilson(rate: float, half: float, images: int, coverage: float = COVERAGE) -> tuple[float, float]:
    """Wilson's interval of a rate, with as many independent pairs as give this half width, or one for each image."""
    z, variance = float(stats.norm.isf((1 - coverage) / 2)), rate * (1 - rate)
    n = z**2 * variance / half**2 if min(half, variance) > ROUNDING else images
    centre, spread = rate + z**2 / (2 * n), z * np.sqrt(variance / n + z**2 / (4 * n**2))
    return (centre - spread) / (1 + z**2 / n), (centre + spread) / (1 + z**2 / n)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value with its influence: one row per training, one column per image; all of it sums to zero."""

    value: float
    influence: pd.DataFrame

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, self._plus(1, other, -1))

    def __truediv__(self, other: Estimate) -> Estimate:
        """The ratio; its influence is that of its linear approximation (the delta method)."""
        if not other.value:
            return Estimate(np.nan, self.influence)
        ratio = self.value / other.value
        return Estimate(ratio, self._plus(1 / other.value, other, -ratio / other.value))

    def __rmul__(self, factor: float) -> Estimate:
        return Estimate(factor * self.value, factor * self.influence)

    def _plus(self, factor: float, other: Estimate, other_factor: float) -> pd.DataFrame:
        if self.influence.empty or other.influence.empty:  # of no pairs: their values are not known either
            return self.influence if other.influence.empty else other.influence
        return (factor * self.influence).add(other_factor * other.influence, fill_value=0).fillna(0)

    @property
    def trainings(self) -> int:
        return self.influence.shape[0]

    @property
    def images(self) -> int:
        return self.influence.shape[1]

    @cached_property
    def variances(self) -> tuple[float, float]:
        """That of trainings and that of images."""
        training, image = variances(self.influence.to_numpy(float))
        return float(training), float(image)

    def interval(self, coverage: float = COVERAGE) -> tuple[float, float]:
        half = float(half_width(*self.variances, self.trainings, self.images, 1 - coverage))
        return self.value - half, self.value + half

    def p(self, threshold: float = 0) -> float:
        return float(p_values(self.value - threshold, *self.variances, self.trainings, self.images))

    def rate_interval(self, coverage: float = COVERAGE) -> tuple[float, float]:
        """Wilson's interval of a rate, with as many independent pairs as give this estimate's half width.

        Where no image and no training differs from the others, as with no failure at all, each image counts once.
        """
        return wilson(self.value, self.interval(coverage)[1] - self.value, self.images, coverage)

    def interval_of(self, metric: Metric) -> tuple[float, float]:
        """The interval of a metric's mean; that of failures in % stays between 0 and 100."""
        if metric is not FAILURE:
            return self.interval()
        low, high = (0.01 * self).rate_interval()
        return 100 * low, 100 * high

    def rate_difference_interval(self, coverage: float = COVERAGE) -> tuple[float, float]:
        """The interval of a difference of two rates; where no pair tells them apart, the difference may still exist."""
        if sum(self.variances) > 0:
            return self.interval(coverage)
        high = nothing(self.images, coverage)
        return self.value - high, self.value + high


def nothing(images: Any, coverage: float = COVERAGE) -> Any:
    """The upper end of Wilson's interval for 0 of n images."""
    z = float(stats.norm.isf((1 - coverage) / 2))
    return z**2 / (z**2 + images)


def mean(values: pd.Series, pairs: pd.DataFrame, weights: pd.Series | None = None) -> Estimate:
    """The mean of values, one for each row of `pairs` with its columns training_seed, seed and image.

    weights sum to one; without them, every pair counts alike.
    """
    numbers = values.to_numpy(float)
    shares = np.full(len(numbers), 1 / max(len(numbers), 1)) if weights is None else weights.to_numpy(float)
    value = float(shares @ numbers) if len(numbers) else np.nan
    training, trainings = pd.factorize(pairs["training_seed"], sort=True)
    image, images = pd.factorize(pd.MultiIndex.from_frame(pairs[IMAGE]), sort=True)
    influence = cells(shares * (numbers - value), training, image)
    return Estimate(value, pd.DataFrame(influence, index=trainings, columns=images))


def cells(values: np.ndarray, training: np.ndarray, image: np.ndarray) -> np.ndarray:
    """The sums of values (n,) by training and image, (trainings, images); both are numbered, with gaps or without."""
    (trainings, row), (images, column) = (np.unique(numbers, return_inverse=True) for numbers in (training, image))
    size = len(trainings), len(images)
    return np.bincount(row * size[1] + column, values, minlength=size[0] * size[1]).reshape(size)
