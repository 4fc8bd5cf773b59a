"""How far each method's counterfactuals, as a set, are from real images of the target class, in the oracles' features.

A run has too few counterfactuals of one class for a covariance of its own. So every image is described by how far its
features are from the mean of real images of the class that it should have; then the classes are pooled. An image that
still looks like another class is far from that mean, even if it is a perfect image of the other class.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from deduce import compute
from deduce.evaluation.attributes import natural_changes
from deduce.frechet import Reference
from deduce.models.oracles import Oracles
from deduce.shards import Pairs, Shard

COMPONENTS, RESAMPLES, FLOORS = 50, 200, 50
UNCHANGED, REAL = "original", "real"  # rows besides the methods: the originals themselves, and other real images
COLUMNS = ["method", "pairs", "components", "distance", "low", "high"]


@dataclass(frozen=True)
class RealImages:
    """Real images that are nobody's original: half of them are the reference, the others show its floor."""

    pixels: Tensor  # (n, channels, height, width) in [0, 1]
    labels: Tensor  # (n,)

    @property
    def natural_changes(self) -> pd.DataFrame:
        return natural_changes(self.pixels.numpy(), self.labels.numpy())


class TargetSpace:
    """Differences from the centre of a class, in the first principal components of the oracles' features."""

    def __init__(self, oracles: Oracles, real: RealImages, components: int) -> None:
        self.oracles = oracles
        features, self.labels = self._features(real.pixels), real.labels
        classes = oracles.arguments["classes"]
        self.centres = torch.stack([features[self.labels == label].mean(0) for label in range(classes)])
        within = features - self.centres[self.labels]
        self.scale = within.std(0).clamp(min=1e-12)
        _, vectors = torch.linalg.eigh((within / self.scale).T.cov())  # ascending
        self.basis = vectors[:, -components:]
        self.real = (within / self.scale) @ self.basis

    def of(self, images: Tensor, targets: Tensor) -> Tensor:
        """images (n, …) that should be of the classes targets (n,): (n, components)."""
        return ((self._features(images) - self.centres[targets]) / self.scale) @ self.basis

    def _features(self, images: Tensor) -> Tensor:
        """The features of all oracles side by side, (n, oracles · dimension) in double precision."""
        features = self.oracles.all_features(images.to(next(self.oracles.parameters()).device))
        return features.transpose(0, 1).flatten(1).double().cpu()


@dataclass
class CommonPairs:
    """The counterfactuals of the pairs that every method found, row for row, and their originals."""

    images: dict[str, np.ndarray] = field(default_factory=dict)  # (n, channels, height, width) by method
    targets: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # (n,)
    original: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # (n,) the number of the original

    def add(self, pairs: Pairs, shards: Mapping[str, Shard]) -> None:
        """Adds what the methods, with the models of one training, made of one test set."""
        found = np.logical_and.reduce([shard.found for shard in shards.values()])
        rows = {UNCHANGED: pairs.original} | {method: shard.counterfactual for method, shard in shards.items()}
        for name, images in rows.items():
            self.images[name] = np.concatenate([self.images.get(name, images[:0]), images[found].clip(0, 1)])
        self.targets = np.concatenate([self.targets, pairs.target[found]])
        self.original = np.concatenate([self.original, pairs.image[found]])


def target_distances(oracles: Oracles, real: RealImages, common: CommonPairs) -> pd.DataFrame:
    """The Fréchet distance of each method's counterfactuals to real images of the target class: columns `COLUMNS`.

    All sets have the same size, because a smaller sample has a larger distance; the row `real` says how large it is for
    that many real images, and `original` what it is if nothing is changed. Fewer than two pairs have no distance.
    """
    n, targets = len(common.targets), torch.as_tensor(common.targets).long()
    components = min(COMPONENTS, n // 2)
    if not components:
        return pd.DataFrame([(name, n, 0, np.nan, np.nan, np.nan) for name in [*common.images, REAL]], columns=COLUMNS)
    space = TargetSpace(oracles, real, components)
    reference = Reference(space.real[::2])
    samples = {name: space.of(torch.as_tensor(pixels), targets) for name, pixels in common.images.items()}
    rows = [
        (name, n, components, *_with_interval(reference, sample, common.original)) for name, sample in samples.items()
    ]
    return pd.DataFrame([*rows, (REAL, n, components, *_floor(reference, space, targets))], columns=COLUMNS)


def _with_interval(reference: Reference, sample: Tensor, images: np.ndarray) -> tuple[float, float, float]:
    """The distance and its 95 % interval over whole images.

    A resample repeats images, which makes its distance larger: the percentiles are moved by as much as the mean of the
    resamples' distances differs from the distance.
    """
    distance, random = reference.distance(sample), np.random.default_rng(0)
    members = [np.flatnonzero(images == image) for image in np.unique(images)]
    if len(members) < 2:
        return distance, np.nan, np.nan
    draws = random.integers(len(members), size=(RESAMPLES, len(members)))
    resampled = [reference.distance(sample[np.concatenate([members[i] for i in draw])]) for draw in draws]
    low, high = np.percentile(resampled, [2.5, 97.5]) - np.mean(resampled) + distance
    return distance, max(float(low), 0.0), float(high)


def _floor(reference: Reference, space: TargetSpace, targets: Tensor) -> tuple[float, float, float]:
    """The mean and the 95 % range for real images of the same classes, drawn from the other half."""
    generator, distances = compute.generator("floor"), []
    labels, others = space.labels[1::2], space.real[1::2]
    members = {label: (labels == label).nonzero().flatten() for label in targets.unique().tolist()}
    counts = {label: int((targets == label).sum()) for label, rows in members.items() if len(rows)}
    for _ in range(FLOORS if counts else 0):
        drawn = torch.cat(
            [
                members[label][torch.randint(len(members[label]), (count,), generator=generator)]
                for label, count in counts.items()
            ]
        )
        distances.append(reference.distance(others[drawn]))
    if not distances:
        return np.nan, np.nan, np.nan
    low, high = np.percentile(distances, [2.5, 97.5])
    return float(np.mean(distances)), float(low), float(high)
