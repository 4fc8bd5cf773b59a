"""JSMA as the paper's baseline has it: change the pixels that matter most for the classification alone."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.search import Method, Models, Path, Result, Rows, change_pixels, checked_pairs, prepared, search


@dataclass(frozen=True)
class JSMA(Method):
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
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module that gives logits.
        """
        classifier = prepared(classifier, images)
        images, targets = checked_pairs(classifier, images, targets, allow_reached)
        return search(self, Models(classifier=classifier), images, targets, progress)

    def start(self, models: Models, rows: Rows) -> None:
        rows.frozen = torch.zeros_like(rows.image, dtype=torch.bool)

    def evaluate(self, models: Models, rows: Rows) -> tuple[Tensor, Tensor]:
        cross_entropy = F.cross_entropy(models.classifier(rows.image), rows.target, reduction="none")
        return cross_entropy, (-cross_entropy).exp()

    def step(self, rows: Rows, gradient: Tensor) -> Path:
        gradient = gradient.masked_fill(rows.frozen, 0).flatten(1)
        pixels = gradient.abs().topk(self.pixels_per_step).indices
        values = change_pixels(rows.image, pixels, -self.step_size * gradient.gather(1, pixels).sign())
        rows.frozen.flatten(1).scatter_(1, pixels, (values == 0) | (values == 1))
        return pixels, values
