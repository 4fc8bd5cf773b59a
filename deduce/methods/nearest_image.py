"""The trivial baseline: the nearest training image that the classifier already puts into the target class."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deduce.search import Result


@dataclass(frozen=True)
class NearestImage:
    """A real image by construction, so as realistic as can be; and as far from sparse as can be."""

    name = "nearest_image"
    display_name = "Nearest image"

    target_confidence: float = 0.5
    norm: float = 1.0  # of the distance in pixels: 1 as in the tables, or 2
    candidates: int = 10  # how many neighbours are looked at for one that the classifier is sure enough of

    @torch.no_grad()
    def generate(
        self, classifier: nn.Module, images: Tensor, targets: Tensor, training_images: Tensor, training_labels: Tensor
    ) -> Result:
        """images: (n, channels, height, width) in [0, 1]; targets: (n,); training data likewise, with its labels."""
        result = Result.empty(images)
        for target in targets.unique():
            asked = torch.nonzero(targets == target)[:, 0]
            known = training_images[training_labels == target]
            distance = torch.cdist(images[asked].flatten(1), known.flatten(1), p=self.norm)
            nearest = known[distance.topk(min(self.candidates, len(known)), largest=False).indices]
            confidence = classifier(nearest.flatten(0, 1)).softmax(1)[:, target].view(len(asked), -1)
            sure = confidence >= self.target_confidence
            # The first that is sure enough; where none is, the one that comes closest to it.
            choice = torch.where(sure.any(1), sure.int().argmax(1), confidence.argmax(1))
            row = torch.arange(len(asked))
            result.counterfactual[asked] = nearest[row, choice].cpu()
            result.confidence[asked] = confidence[row, choice].cpu()
            result.found[asked] = sure.any(1).cpu()
            result.iterations[asked] = choice.cpu() + 1
        return result

    def settings(self) -> dict[str, Any]:
        return asdict(self)
