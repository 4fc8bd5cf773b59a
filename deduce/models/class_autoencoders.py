"""One small autoencoder per class and one of all classes, which the interpretability scores IM1 and IM2 compare."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.training import Batch, Task, descend


class ClassAutoencoders(nn.Module):
    """`classes` + 1 networks, the last for all classes, with one hidden layer on each side of a narrow latent layer.

    The bottleneck is narrow on purpose: an autoencoder that can copy any image cannot tell its class from others.
    """

    def __init__(self, classes: int, pixels: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.arguments = dict(classes=classes, pixels=pixels, hidden=hidden, latent=latent)
        self.classes = classes
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in pairwise([pixels, hidden, latent, hidden, pixels]):
            bound = inputs**-0.5
            self.weights.append(torch.empty(classes + 1, inputs, outputs).uniform_(-bound, bound))
            self.biases.append(torch.zeros(classes + 1, 1, outputs))

    def forward(self, images: Tensor) -> Tensor:
        """Network i reconstructs images[i]: (classes + 1, n, pixels) in [0, 1] → the same shape and range."""
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            images = torch.baddbmm(bias, images, weight)
            if layer in (0, 2):
                images = images.relu()
        return images.sigmoid()

    def reconstructions(self, images: Tensor) -> Tensor:
        """Every network's reconstructions of the same images (n, channels, height, width): (classes + 1, n, pixels)."""
        return self(images.flatten(1).expand(self.classes + 1, -1, -1))


class ClassAutoencoding(Task):
    """Mean squared error per pixel, by Adam; each row of a batch has one image of every class."""

    validation_share = 1.0  # a fifth of few images may lack a class

    def arranged(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        rows = by_class(images, labels, self.network.classes)
        return rows, rows.new_zeros(len(rows)).long()  # the columns are the classes: rows have no label

    def step(self, batch: Batch) -> dict[str, Tensor]:
        loss = _errors(self.module, batch.images).sum()  # independent networks: a sum trains each as if alone
        descend(self.optimisers[0], loss)
        return {"loss": loss / (batch.images.shape[1] + 1)}

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        errors = _errors(self.module, images)
        return {"validation_loss": errors[:-1].mean().item(), "validation_loss_of_all": errors[-1].item()}


def by_class(images: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Images (n, channels, height, width) as (m, classes, channels · height, width): row i has the i-th of each."""
    groups = [images[labels == label].flatten(1, 2) for label in range(classes)]
    return torch.stack([group[: min(map(len, groups))] for group in groups], dim=1)


def _errors(network: nn.Module, images: Tensor) -> Tensor:
    """Mean squared error of each network, (classes + 1,); the last network's images are of all classes in turn."""
    n, classes = images.shape[:2]
    rows_of_class = images.flatten(2).transpose(0, 1)
    row = torch.arange(n, device=images.device)
    inputs = torch.cat([rows_of_class, rows_of_class[row % classes, row][None]])
    return F.mse_loss(network(inputs), inputs, reduction="none").mean((1, 2))
