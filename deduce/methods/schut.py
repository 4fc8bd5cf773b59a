"""Schut et al. (2021): change the pixels that matter most to an ensemble, until the ensemble is almost sure.

High confidence of an ensemble means that its members agree (low epistemic uncertainty) and that none of them wavers
(low aleatoric uncertainty). DeDUCE has a density in the place of the ensemble.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.inputs import check_functions
from deduce.models.ensemble import mean_probabilities
from deduce.search import Models, PixelChanges, Result, Rows, Search, change_pixels, folded, folded_beside, search


@dataclass
class CountingRows(Rows):
    changes: Tensor  # (n, channels, height, width): how often each pixel was changed


@dataclass(frozen=True)
class Schut(Search[Models, CountingRows]):
    """Hyper-parameters as published for MNIST. A search ends when the ensemble is as sure of the target as required."""

    name = "schut"
    display_name = "Schut"
    changes_pixels = True

    target_confidence: float = 0.99
    step_size: float = 0.2
    max_iterations: int = 5000
    max_changes_per_pixel: int = 5
    batch_size: int = 100

    def generate(
        self,
        classifier: Any,
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
        confirming: nn.Module | None = None,
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: an ensemble, with `member_logits(images) -> (members, n, classes)`. confirming: any classifier; a
        search then goes on until it predicts the target too.
        """
        check_functions(classifier, "the classifier", "member_logits")
        classifier = folded(classifier, images)
        models = Models(classifier, confirming=folded_beside(confirming, classifier, images))
        return search(self, models, images, targets, allow_reached, progress)

    def start(self, models: Models, rows: Rows) -> CountingRows:
        return CountingRows(**vars(rows), changes=torch.zeros_like(rows.image, dtype=torch.int32))

    def evaluate(self, models: Models, rows: CountingRows) -> tuple[Tensor, Tensor]:
        logits = models.classifier.member_logits(rows.image)
        confidence = mean_probabilities(logits).gather(1, rows.target[:, None])[:, 0]
        # As in the released code: the gradient is of the mean logits, the test of the mean probabilities.
        return F.cross_entropy(logits.mean(0), rows.target, reduction="none"), confidence

    def step(self, rows: CountingRows, gradient: Tensor) -> PixelChanges:
        gradient = gradient.masked_fill(rows.changes >= self.max_changes_per_pixel, 0).flatten(1)
        pixels = gradient.abs().argmax(1, keepdim=True)
        values = change_pixels(rows.image, pixels, -self.step_size * gradient.gather(1, pixels).sign())
        rows.changes.flatten(1).scatter_add_(1, pixels, torch.ones_like(pixels, dtype=torch.int32))
        return pixels, values
