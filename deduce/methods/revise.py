"""REVISE: walk through the latent space of a generative model until the image it draws is of the target's class."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.search import Models, Result, Rows, Search, folded, frozen_beside, search


@dataclass
class GenerativeModels(Models):
    generative_model: Any


@dataclass
class LatentRows(Rows):
    original: Tensor
    latent: Tensor
    descent: Tensor  # the next step goes against this direction


@dataclass(frozen=True)
class REVISE(Search[GenerativeModels, LatentRows]):
    """Hyper-parameters as published; `distance_weight` is λ, `step_size` is δ."""

    name = "revise"
    display_name = "REVISE"
    needs = ("generative_model",)
    variable = "latent"

    target_confidence: float = 0.5
    distance_weight: float = 1.0
    step_size: float = 1e-5
    max_iterations: int = 50_000
    # The released code, which made the paper's numbers, never clears its gradient: every step follows the sum of all
    # gradients so far. The paper describes plain gradient descent.
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
        models = GenerativeModels(folded(classifier, images), frozen_beside(generative_model, classifier))
        return search(self, models, images, targets, allow_reached, progress)

    def start(self, models: GenerativeModels, rows: Rows) -> LatentRows:
        latent = models.generative_model.encode(rows.image)[0].contiguous()
        return LatentRows(**vars(rows), original=rows.image, latent=latent, descent=torch.zeros_like(latent))

    def evaluate(self, models: GenerativeModels, rows: LatentRows) -> tuple[Tensor, Tensor]:
        generated = models.generative_model.decode(rows.latent)
        cross_entropy = F.cross_entropy(models.classifier(generated), rows.target, reduction="none")
        distance = (generated - rows.original).abs().flatten(1).sum(1)
        image = generated.detach()
        rows.image = torch.where(image.isfinite(), image, rows.image)  # a latent vector may have diverged
        return cross_entropy + self.distance_weight * distance, (-cross_entropy).exp()

    def step(self, rows: LatentRows, gradient: Tensor) -> None:
        rows.descent = gradient + rows.descent if self.accumulate_gradients else gradient
        rows.latent -= self.step_size * rows.descent
