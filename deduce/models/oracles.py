"""Oracles: small classifiers that no method explains, asked whether they see the target class in a counterfactual.

Their architectures and initial weights differ, so that what they agree on is a property of the image and not of one
network. They are trained side by side in one job, because each of them needs a few seconds only.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.density import ClassDensities
from deduce.fold import BLOCK
from deduce.models import ORACLES
from deduce.training import Batch, Task, descend

DIMENSION = 32  # of the features of every oracle


class Residual(nn.Module):
    """Two normalised convolutions whose result is added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_normalised(width, width, 1), nn.ReLU(), *_normalised(width, width, 1))

    def forward(self, images: Tensor) -> Tensor:
        return F.relu(images + self.layers(images))


def _normalised(inputs: int, outputs: int, stride: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)


def _perceptron(channels: int) -> tuple[nn.Module, ...]:
    return nn.Flatten(), nn.LazyLinear(256), nn.ReLU()


def _deep_perceptron(channels: int) -> tuple[nn.Module, ...]:
    return nn.Flatten(), nn.LazyLinear(256), nn.Tanh(), nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 64), nn.Tanh()


def _convolutional(channels: int) -> tuple[nn.Module, ...]:
    first, second = nn.Conv2d(channels, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
    return first, nn.ReLU(), nn.MaxPool2d(2), second, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()


def _residual(channels: int) -> tuple[nn.Module, ...]:
    first, second = (*_normalised(channels, 16, 2), nn.ReLU()), (*_normalised(16, 32, 2), nn.ReLU())
    return *first, Residual(16), *second, Residual(32), nn.AdaptiveAvgPool2d(1), nn.Flatten()


def _patches(channels: int) -> tuple[nn.Module, ...]:
    """Overlapping patches of 8 × 8 pixels, and what lies beside each."""
    return nn.Conv2d(channels, 32, 8, 4, 4), nn.GELU(), nn.Conv2d(32, 32, 3, padding=1), nn.GELU(), nn.Flatten()


# Of each oracle: the layers below its features, and the nonlinearity between features and logits. The features
# themselves are linear, because a density cannot be fitted to units that are always zero.
ARCHITECTURES: dict[str, tuple[Callable[[int], tuple[nn.Module, ...]], type[nn.Module]]] = {
    "perceptron": (_perceptron, nn.ReLU),
    "deep_perceptron": (_deep_perceptron, nn.Tanh),
    "convolutional": (_convolutional, nn.ReLU),
    "residual": (_residual, nn.ReLU),
    "patches": (_patches, nn.GELU),
}


class Oracles(nn.Module):
    """All oracles, in the order of `ORACLES`, and the density of each class in the features of each."""

    def __init__(self, channels: int, classes: int, size: int) -> None:
        super().__init__()
        self.arguments = dict(channels=channels, classes=classes, size=size)
        self.below, self.heads, self.densities = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for layers, nonlinearity in (ARCHITECTURES[name] for name in ORACLES):
            self.below.append(nn.Sequential(*layers(channels), nn.LazyLinear(DIMENSION)))
            self.heads.append(nn.Sequential(nonlinearity(), nn.Linear(DIMENSION, classes)))
            self.densities.append(ClassDensities(classes, DIMENSION))
        with torch.no_grad():  # tells the lazy layers the size of their input
            self.eval().features(torch.zeros(2, channels, size, size))
        self.train()

    def features(self, images: Tensor) -> Tensor:
        """images: (n, channels, size, size) in [0, 1] → (oracles, n, DIMENSION)."""
        return torch.stack([network(images) for network in self.below])

    def logits(self, features: Tensor) -> Tensor:
        """features: (oracles, n, DIMENSION) → (oracles, n, classes)."""
        return torch.stack([head(rows) for head, rows in zip(self.heads, features, strict=True)])

    def forward(self, images: Tensor) -> Tensor:
        """images: (n, channels, size, size) in [0, 1] → logits (oracles, n, classes)."""
        return self.logits(self.features(images))

    @torch.no_grad()
    def seen(self, images: Tensor) -> Tensor:
        """The class that each oracle sees in any number of images: (oracles, n)."""
        return torch.cat([self(block).argmax(2) for block in images.split(BLOCK)], dim=1)

    @torch.no_grad()
    def all_features(self, images: Tensor) -> Tensor:
        """The features of any number of images: (oracles, n, DIMENSION)."""
        return torch.cat([self.features(block) for block in images.split(BLOCK)], dim=1)


class OracleTraining(Task):
    """Cross-entropy by Adam; afterwards the densities are fitted to the features of the training images."""

    data: tuple[Tensor, Tensor] | None = None  # the training images and their labels

    def __init__(self, network: Oracles, settings: dict[str, Any]) -> None:
        super().__init__(network, settings)

    def arranged(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        self.data = self.data or (images, labels)  # the validation images come second
        return images, labels

    def step(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.module(batch.images)
        targets = batch.labels.expand(len(logits), -1)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        # The oracles share no weights: by the gradient of the sum, each learns as if it were alone.
        descend(self.optimisers[0], len(logits) * loss)
        return {"loss": loss, "accuracy": (logits.argmax(2) == targets).float().mean()}

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        return {"validation_accuracy": (self.network.seen(images) == labels).double().mean().item()}

    def result(self) -> nn.Module:
        if self.data:
            images, labels = (tensor.to(next(self.network.parameters()).device) for tensor in self.data)
            for density, features in zip(self.network.densities, self.network.all_features(images), strict=True):
                fitted = ClassDensities.fit(features, labels, len(density.mean))
                density.load_state_dict(fitted.state_dict())
        return self.module
