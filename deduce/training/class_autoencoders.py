"""How the autoencoders of the classes learn: all at once, each from its own class."""

import torch
from torch import Tensor
from torch.nn import functional as F

from deduce.models.class_autoencoders import ClassAutoencoders
from deduce.training import Batch, Task, descend


class ClassAutoencoding(Task):
    """Mean squared error per pixel, by Adam; a batch is (n, classes, height, width), one image of each class a row."""

    def __init__(self, network: ClassAutoencoders, learning_rate: float) -> None:
        self.module = network
        self.optimisers = [torch.optim.Adam(network.parameters(), learning_rate)]

    def step(self, batch: Batch) -> dict[str, Tensor]:
        loss = _errors(self.module, batch.images).sum()  # independent networks: a sum trains each as if alone
        descend(self.optimisers[0], loss)
        return {"loss": loss / (batch.images.shape[1] + 1)}

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        errors = _errors(self.module, images)
        return {"validation_loss": errors[:-1].mean().item(), "validation_loss_of_all": errors[-1].item()}


def side_by_side(images: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Images (n, 1, height, width) as (m, classes, height, width): row i has the i-th image of every class."""
    groups = [images[labels == label, 0] for label in range(classes)]
    return torch.stack([group[: min(map(len, groups))] for group in groups], dim=1)


def _errors(network: torch.nn.Module, images: Tensor) -> Tensor:
    """Mean squared error of each network, (classes + 1,); the last one's images are of all classes in turn."""
    n, classes = images.shape[:2]
    by_class = images.flatten(2).transpose(0, 1)
    rows = torch.arange(n, device=images.device)
    wanted = torch.cat([by_class, by_class[rows % classes, rows][None]])
    return F.mse_loss(network(wanted), wanted, reduction="none").mean((1, 2))
