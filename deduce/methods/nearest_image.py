"""The trivial baseline: the nearest training image that the classifier already puts into the target class."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deduce.errors import InputError
from deduce.fold import device_of
from deduce.inputs import check_range, training_data
from deduce.search import Method, Result, checked_pairs, folded


@dataclass(frozen=True)
class NearestImage(Method):
    """The counterfactual is a real image: as realistic as can be, and far from sparse."""

    name = "nearest_image"
    display_name = "Nearest image"
    needs = ("training",)

    target_confidence: float = 0.5
    norm: float = 1.0  # of the distance in pixels: 1 as in the tables, or 2
    candidates: int = 10  # how many neighbours to try until the classifier is confident enough

    @torch.no_grad()
    def generate(
        self,
        classifier: nn.Module,
        training: tuple[Tensor, Tensor],
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module that gives logits. training: images of the same shape, and their labels.
        """
        classifier = folded(classifier, images)
        images, targets = checked_pairs(classifier, images, targets, allow_reached)
        device = device_of(classifier)
        training_images, training_labels = (tensor.to(device) for tensor in training_data(training))
        result = Result.empty(images)
        for target in targets.unique().tolist():
            rows = (targets == target).nonzero()[:, 0]
            of_target = training_images[training_labels == target]
            if not len(of_target) or of_target.shape[1:] != images.shape[1:]:
                shape = f"of shape {tuple(of_target.shape[1:])} " if len(of_target) else ""
                raise InputError(
                    f"{len(of_target)} training images {shape}are of class {target}: none can be an answer."
                )
            distance = torch.cdist(images[rows].to(device).flatten(1), of_target.flatten(1), p=self.norm)
            nearest = of_target[distance.topk(min(self.candidates, len(of_target)), largest=False).indices]
            check_range(nearest.flatten(0, 1), "a nearest training image, number")
            confidence = classifier(nearest.flatten(0, 1)).softmax(1)[:, target].view(len(rows), -1)
            confident = confidence >= self.target_confidence
            # The nearest candidate with enough confidence; if none has enough, the candidate with the most.
            choice = torch.where(confident.any(1), confident.int().argmax(1), confidence.argmax(1))
            row = torch.arange(len(rows), device=device)
            result.counterfactual[rows] = nearest[row, choice].cpu()
            result.confidence[rows] = confidence[row, choice].cpu()
            result.found[rows] = confident.any(1).cpu()
            result.iterations[rows] = choice.cpu() + 1
        return result
