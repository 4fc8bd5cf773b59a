"""JSMA, as in the paper's baseline: change the pixels that matter most for the classification alone."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.search import Models, PixelChanges, Result, Rows, Search, change_pixels, folded, folded_beside, search


@dataclass
class FreezingRows(Rows):
    saturated: Tensor  # (n, channels, height, width) bool: pixels that a step took to 0 or 1


@dataclass(frozen=True)
class JSMA(Search[Models, FreezingRows]):
    """Hyper-parameters as published. A pixel that a step took to 0 or 1 is not changed again."""

    name = "jsma"
    display_name = "JSMA"
    changes_pixels = True

    target_confidence: float = 0.5
    step_size: float = 0.2
    max_iterations: int = 700
    pixels_per_step: int = 1
    batch_size: int = 100

    def generate(
        self,
        classifier: nn.Module,
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
        confirming: nn.Module | None = None,
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module that gives logits.
        confirming: another such module; a search then goes on until this classifier predicts the target too.
        """
        models = Models(folded(classifier, images), confirming=folded_beside(confirming, classifier, images))
        return search(self, models, images, targets, allow_reached, progress)

    def start(self, models: Models, rows: Rows) -> FreezingRows:
        return FreezingRows(**vars(rows), saturated=torch.zeros_like(rows.image, dtype=torch.bool))

    def evaluate(self, models: Models, rows: FreezingRows) -> tuple[Tensor, Tensor]:
        cross_entropy = F.cross_entropy(models.classifier(rows.image), rows.target, reduction="none")
        return cross_entropy, (-cross_entropy).exp()

    def step(self, rows: FreezingRows, gradient: Tensor) -> PixelChanges:
        gradient = gradient.masked_fill(rows.saturated, 0).flatten(1)
        pixels = gradient.abs().topk(self.pixels_per_step).indices
        values = change_pixels(rows.image, pixels, -self.step_size * gradient.gather(1, pixels).sign())
        rows.saturated.flatten(1).scatter_(1, pixels, (values == 0) | (values == 1))
        return pixels, values
