"""DeDUCE (algorithm 1): change the pixels that matter most for crossing into the target's class *and* its density."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.density import ClassDensities
from deduce.errors import InputError
from deduce.fold import BLOCK, device_of, features_of
from deduce.inputs import check_densities, check_range, image_tensor, training_data
from deduce.search import (
    Models,
    PixelChanges,
    Result,
    Rows,
    Search,
    change_pixels,
    folded,
    folded_beside,
    on_device,
    probabilities,
    search,
)


@dataclass
class DensityModels(Models):
    densities: ClassDensities


@dataclass
class MomentumRows(Rows):
    velocity: Tensor  # g of the last iteration
    changes: Tensor  # P: how often each pixel was changed


@dataclass(frozen=True)
class DeDUCE(Search[DensityModels, MomentumRows]):
    """Hyper-parameters as published. The first six are γ, δ, max_iter, p, q and m in the paper."""

    name = "deduce"
    display_name = "DeDUCE"
    needs = ("densities",)
    changes_pixels = True

    target_confidence: float = 0.5
    step_size: float = 0.2
    max_iterations: int = 700
    max_changes_per_pixel: int = 5
    pixels_per_step: int = 1
    momentum: float = 0.6
    # The paper's equation 6 selects pixels by the gradient with momentum. The released code, which made the paper's
    # numbers, selects them by the plain gradient, and uses the momentum for the direction of the step only.
    momentum_in_selection: bool = False
    objective: Literal["relative", "weighted"] = "relative"  # equation 5 or equation 4
    cross_entropy_weight: float = 1.0  # μ of equation 5, λ of equation 4
    batch_size: int = 100

    def generate(
        self,
        classifier: nn.Module,
        densities: ClassDensities | Sequence[Tensor],
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
        confirming: nn.Module | None = None,
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module whose last layer is linear, or that has `features(images) -> (n, d)` and
        `head(features) -> logits`.
        densities: of the features of each class; or training images and labels, to which they are then fitted.
        confirming: any module that gives logits; a search then goes on until this classifier predicts the target too.
        """
        classifier = folded(classifier, images, features=True)
        if not isinstance(densities, nn.Module):
            densities = fitted(classifier, *training_data(densities))
        else:
            check_range(first := image_tensor(images)[:1])
            example, classes = features_of(classifier, first), probabilities(classifier, first).shape[1]
            check_densities(on_device(densities, example.device), example, classes)
        confirming = folded_beside(confirming, classifier, images)
        models = DensityModels(classifier, on_device(densities, device_of(classifier)), confirming=confirming)
        return search(self, models, images, targets, allow_reached, progress)

    def start(self, models: DensityModels, rows: Rows) -> MomentumRows:
        changes = torch.zeros_like(rows.image, dtype=torch.int32)
        return MomentumRows(**vars(rows), velocity=torch.zeros_like(rows.image), changes=changes)

    def evaluate(self, models: DensityModels, rows: MomentumRows) -> tuple[Tensor, Tensor]:
        features = models.classifier.features(rows.image)
        cross_entropy = F.cross_entropy(models.classifier.head(features), rows.target, reduction="none")
        log_density = models.densities.log_density(features, rows.target)
        confidence = (-cross_entropy).exp()
        if self.objective == "relative":  # equation 5: each term is divided by its present size, a constant
            cross_entropy = cross_entropy / _size(cross_entropy)
            log_density = log_density / _size(log_density)
        return self.cross_entropy_weight * cross_entropy - log_density, confidence

    def step(self, rows: MomentumRows, gradient: Tensor) -> PixelChanges:
        rows.velocity = gradient + self.momentum * rows.velocity  # equation 6
        salience = (rows.velocity if self.momentum_in_selection else gradient).abs()
        allowed = rows.changes < self.max_changes_per_pixel
        pixels = (salience * allowed).flatten(1).topk(self.pixels_per_step).indices
        # Descends the loss; the opposite sign in the paper's algorithm 1 is a slip.
        change = -self.step_size * rows.velocity.flatten(1).gather(1, pixels).sign()
        values = change_pixels(rows.image, pixels, change * allowed.flatten(1).gather(1, pixels))
        rows.changes.flatten(1).scatter_add_(1, pixels, torch.ones_like(pixels, dtype=torch.int32))
        return pixels, values


def _size(term: Tensor) -> Tensor:
    return term.detach().abs().clamp_min(1e-12)


@torch.no_grad()
def fitted(classifier: Any, images: Any, labels: Any) -> ClassDensities:
    """The densities of a classifier's features on training images (n, channels, height, width) with labels (n,)."""
    images, labels = training_data((images, labels))
    check_range(images[:BLOCK], "training image")
    features = features_of(classifier, images)
    classes = classifier.head(features[:1]).shape[1]
    if unknown := labels[(labels < 0) | (labels >= classes)].tolist():
        raise InputError(f"training label {unknown[0]} is outside 0..{classes - 1}.")
    return ClassDensities.fit(features, labels.to(features.device), classes)
