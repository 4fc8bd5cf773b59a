"""REVISE: walk through the latent space of a generative model until the image it draws is of the target's class."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.fold import frozen
from deduce.search import Method, Models, Result, Rows, checked_pairs, prepared, search


@dataclass(frozen=True)
class REVISE(Method):
    """Hyper-parameters as published; `distance_weight` is λ, `step_size` is δ."""

    name = "revise"
    display_name = "REVISE"
    variable = "latent"

    target_confidence: float = 0.5
    distance_weight: float = 1.0
    step_size: float = 1e-5
    max_iterations: int = 50_000
    # The released code, which made the paper's numbers, never clears its gradient, so that every step goes along the
    # sum of all gradients so far. The paper describes plain gradient descent.
    accumulate_gradients: bool = True
    batch_size: int = 100

    def generate(
        self,
        classifier: nn.Module,
        generative_model: Any,
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module that gives logits.
        generative_model: a module with `encode(images) -> (mean, ...)` and `decode(latent) -> images in [0, 1]`.
        """
        classifier = prepared(classifier, images)
        images, targets = checked_pairs(classifier, images, targets, allow_reached)
        models = Models(classifier=classifier, generative_model=frozen(generative_model))
        return search(self, models, images, targets, progress)

    def start(self, models: Models, rows: Rows) -> None:
        rows.original = rows.image
        rows.latent = models.generative_model.encode(rows.image)[0].contiguous()
        rows.descent = torch.zeros_like(rows.latent)  # what the next step goes along

    def evaluate(self, models: Models, rows: Rows) -> tuple[Tensor, Tensor]:
        generated = models.generative_model.decode(rows.latent)
        cross_entropy = F.cross_entropy(models.classifier(generated), rows.target, reduction="none")
        distance = (generated - rows.original).abs().flatten(1).sum(1)
        drawn = generated.detach()
        rows.image = torch.where(drawn.isfinite(), drawn, rows.image)  # a latent that diverged draws nothing
        return cross_entropy + self.distance_weight * distance, (-cross_entropy).exp()

    def step(self, rows: Rows, gradient: Tensor) -> None:
        rows.descent = gradient + rows.descent if self.accumulate_gradients else gradient
        rows.latent -= self.step_size * rows.descent
