"""Wachter et al. (2017): the nearest image that the classifier puts into the target class, by gradient descent.

The loss is equation 1 of the DeDUCE paper. Its weight λ is here a factor of the distance, and is searched as in alibi's
`Counterfactual`: a sweep over orders of magnitude brackets it, and a bisection narrows the bracket.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce import adam
from deduce.errors import InputError
from deduce.fold import device_of
from deduce.search import Models, Result, Rows, Search, folded, search


@dataclass
class PixelWeights:
    """The weight of each pixel in the distance, (channels, height, width), or 1 for all."""

    values: Tensor | float


@dataclass
class WeightedModels(Models):
    pixels: PixelWeights


@dataclass
class WachterRows(adam.AdamRows):
    original: Tensor
    point: Tensor  # where the search is; `image` is the nearest counterfactual, or the point until there is one
    distance: Tensor  # of the nearest counterfactual from the original; infinite until there is one
    best_confidence: Tensor
    weight: Tensor  # λ, between the bounds of its search
    lower: Tensor
    upper: Tensor
    tried: Tensor  # how many weights have had their steps
    hits: Tensor  # steps with the present weight that ended in a counterfactual
    streak: Tensor  # of how many hits in a row; negative: misses
    sweep_hits: Tensor  # how many weights of the sweep had a hit
    returning: Tensor  # bool: the next step goes back to the original


@dataclass(frozen=True)
class Wachter(Search[WeightedModels, WachterRows]):
    """Hyper-parameters; the defaults are those of alibi's MNIST example, and the comments give alibi's names."""

    name = "wachter"
    display_name = "Wachter"
    needs = ("training",)
    variable = "point"

    target_confidence: float = 0.5
    loss: Literal["squared", "cross_entropy"] = "squared"  # squared: (p - 1)², as published
    distance: Literal["l1", "mad"] = "l1"  # mad: each pixel divided by its median absolute deviation
    smallest_deviation: float = 0.01  # most pixels of MNIST never change: their deviation would be 0
    initial_weight: float = 0.1  # lam_init
    sweep_weights: int = 10  # each a tenth of the one before, with a tenth of the iterations
    weight_steps: int = 10  # max_lam_steps: of the bisection
    max_iterations: int = 1000  # max_iter: with each weight of the bisection
    patience: int = 50  # early_stop: hits or misses in a row that end a step of the bisection
    enough_hits: int = 5  # for a larger weight
    learning_rate: float = 0.1  # learning_rate_init; falls linearly to 0 over max_iterations
    batch_size: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sweep_iterations < 1:
            raise InputError(f"max_iterations is {self.max_iterations}; it must be at least 10.")

    @property
    def sweep_iterations(self) -> int:
        """With each weight of the sweep."""
        return self.max_iterations // 10

    def prepare(self, images: Any, classifier: Any, **needed: Any) -> dict[str, Any]:
        return super().prepare(images, classifier) | {"training": self.pixel_weights(needed["training"])}

    def pixel_weights(self, training: Tensor | tuple[Tensor, Tensor] | None) -> PixelWeights:
        if self.distance == "l1":
            return PixelWeights(1.0)
        if training is None:
            raise InputError("the distance 'mad' needs training images, for the deviation of each pixel.")
        images = training[0] if isinstance(training, tuple) else training
        deviation = (images - images.median(0).values).abs().median(0).values
        return PixelWeights(1 / deviation.clamp_min(self.smallest_deviation))

    def generate(
        self,
        classifier: nn.Module,
        training: Tensor | tuple[Tensor, Tensor] | PixelWeights | None,
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module that gives logits. training: images of the same shape, with or without labels, or their
        `pixel_weights`; may be None if the distance is `l1`.
        """
        classifier = folded(classifier, images)
        weights = training if isinstance(training, PixelWeights) else self.pixel_weights(training)
        if isinstance(weights.values, Tensor):
            weights = PixelWeights(weights.values.to(device_of(classifier)))
        return search(self, WeightedModels(classifier, weights), images, targets, allow_reached, progress)

    def start(self, models: WeightedModels, rows: Rows) -> WachterRows:
        zeros, none = rows.image.new_zeros(len(rows.image)), torch.zeros_like(rows.iterations)
        return WachterRows(
            **adam.beginning(rows, rows.image),
            original=rows.image,
            point=rows.image,
            distance=zeros + torch.inf,
            best_confidence=zeros,
            weight=zeros + self.initial_weight,
            lower=zeros,
            upper=zeros + self.initial_weight,
            tried=none,
            hits=none,
            streak=none,
            sweep_hits=none,
            returning=rows.broken,
        )

    def evaluate(self, models: WeightedModels, rows: WachterRows) -> tuple[Tensor, Tensor]:
        cross_entropy = F.cross_entropy(models.classifier(rows.point), rows.target, reduction="none")
        confidence = (-cross_entropy).exp()
        distance = ((rows.point - rows.original).abs() * models.pixels.values).flatten(1).sum(1)
        self.judge(rows, confidence.detach(), distance.detach())
        loss = cross_entropy if self.loss == "cross_entropy" else (1 - confidence).square()
        return loss + rows.weight * distance, rows.best_confidence

    def judge(self, rows: WachterRows, confidence: Tensor, distance: Tensor) -> None:
        """Counts hits and keeps the nearest; where the present weight has had its steps, goes on to the next."""
        hit, sweeping = confidence >= self.target_confidence, rows.tried < self.sweep_weights
        # As in alibi, the hits of the sweep are not kept; except an original that needs no search at all.
        nearer = hit & (distance < rows.distance) & (~sweeping | (rows.iterations == 0))
        rows.distance = torch.where(nearer, distance, rows.distance)
        kept = nearer | (rows.distance.isinf() & ~hit)  # until a hit is kept, the last miss
        rows.best_confidence = torch.where(kept, confidence, rows.best_confidence)
        rows.image = torch.where(adam.like(kept, rows.point), rows.point, rows.image).detach()

        hit = hit & (rows.steps > 0)
        rows.hits = rows.hits + hit
        rows.streak = torch.where(hit, rows.streak.clamp(min=0) + 1, rows.streak.clamp(max=0) - (rows.steps > 0).long())
        patient = (rows.steps < self.max_iterations) & (rows.streak.abs() < self.patience)
        ended = torch.where(sweeping, rows.steps >= self.sweep_iterations, ~patient)
        self.next_weight(rows, ended & sweeping, ended & ~sweeping)

    def next_weight(self, rows: WachterRows, swept: Tensor, bisected: Tensor) -> None:
        """Narrows λ where its steps are over, in the sweep or in the bisection; both are masks, (n,) bool."""
        # The sweep's bracket: the second weight with a hit, and the smallest without (the largest, if all have hits).
        hit = rows.hits > 0
        rows.sweep_hits = rows.sweep_hits + (swept & hit)
        rows.lower = torch.where(swept & hit & (rows.sweep_hits == 2), rows.weight, rows.lower)
        rows.upper = torch.where(swept & ~hit, rows.weight, rows.upper)
        # The bisection: a larger weight is nearer to the original, if it still finds enough.
        enough = rows.hits >= self.enough_hits
        rows.lower = torch.where(bisected & enough, torch.maximum(rows.lower, rows.weight), rows.lower)
        rows.upper = torch.where(bisected & ~enough, torch.minimum(rows.upper, rows.weight), rows.upper)
        ended = swept | bisected
        rows.tried = rows.tried + ended
        bracketed = ended & (rows.tried >= self.sweep_weights)
        weight = torch.where(bracketed, (rows.lower + rows.upper) / 2, rows.weight / 10)
        rows.weight = torch.where(ended, weight, rows.weight)
        rows.returning = swept & bracketed
        rows.hits, rows.streak = rows.hits.masked_fill(ended, 0), rows.streak.masked_fill(ended, 0)
        adam.begin_again(rows, ended)

    def step(self, rows: WachterRows, gradient: Tensor) -> None:
        rate = self.learning_rate * (1 - rows.steps / self.max_iterations)
        moved = (rows.point + adam.change(rows, gradient, rate)).clamp(0, 1)
        rows.point = torch.where(adam.like(rows.returning, moved), rows.original, moved)
        adam.begin_again(rows, rows.returning)

    def succeeded(self, rows: WachterRows) -> Tensor:
        return rows.distance.isfinite() & self.exhausted(rows)

    def exhausted(self, rows: WachterRows) -> Tensor:
        """After the bisection, without a bracket of two orders of magnitude, or at the very start."""
        unbracketed = (rows.tried >= self.sweep_weights) & (rows.sweep_hits < 2)
        bisected = rows.tried >= self.sweep_weights + self.weight_steps
        return bisected | unbracketed | (rows.distance == 0)
