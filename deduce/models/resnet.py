"""The two classifiers: the spectrally normalised ResNet-18 of DDU, and the plain ResNet-18 of the baselines.

Both give logits, by a linear layer `head` on top of `features(images)`.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce import compute, kernels
from deduce.fold import features_of
from deduce.models.spectral import bounded
from deduce.training import Batch, Task, descend

# Of each block: the channels of input and output as multiples of the network's width, and the stride.
BLOCKS = ((1, 1, 1), (1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 4, 2), (4, 4, 1), (4, 8, 2), (8, 8, 1))
SLOPE = 0.01  # of the LeakyReLU


class SpectralResNet(nn.Module):
    """ResNet-18 with every convolution 3×3 and softly bounded, LeakyReLU, and shortcuts without weights."""

    precision = "float32"  # of the products in training
    bfloat16_pays = 8  # the smallest width of which training is faster in bfloat16 (benchmarks/training.py)

    def __init__(self, width: int, channels: int, classes: int, size: int, coefficient: float = 4.0) -> None:
        super().__init__()
        self.arguments = dict(width=width, channels=channels, classes=classes, size=size, coefficient=coefficient)
        self.stem = _bounded_convolution(channels, width, 1, size, coefficient)
        self.normalisation = nn.BatchNorm2d(width)
        self.blocks = nn.Sequential()
        for inputs, outputs, stride in BLOCKS:
            self.blocks.append(SpectralBlock(inputs * width, outputs * width, stride, size, coefficient))
            size = -(-size // stride)
        self.head = nn.Linear(8 * width, classes)

    def features(self, images: Tensor) -> Tensor:
        """images: (n, channels, size, size) in [0, 1] → (n, 8 · width), to which the densities are fitted."""
        out = F.leaky_relu(self.normalisation(self.stem(images)), SLOPE)
        return self.blocks(out).mean((2, 3))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))

    def chains(self) -> dict[str, tuple[nn.Module, ...]]:
        first = self.stem, self.normalisation, nn.LeakyReLU(SLOPE)
        return {"features": (*first, self.blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())}


class SpectralBlock(nn.Module):
    """Two bounded convolutions; the shortcut averages pixels and fills new channels with zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int, size: int, coefficient: float) -> None:
        super().__init__()
        self.stride, self.new_channels = stride, outputs - inputs
        self.convolution1 = _bounded_convolution(inputs, outputs, stride, size, coefficient)
        self.normalisation1 = nn.BatchNorm2d(outputs)
        self.convolution2 = _bounded_convolution(outputs, outputs, 1, -(-size // stride), coefficient)
        self.normalisation2 = nn.BatchNorm2d(outputs)

    def shortcut(self, images: Tensor) -> Tensor:
        if self.stride > 1:
            # An odd side cannot be divided into windows: take every stride-th pixel, to get the same size.
            window = self.stride if images.shape[-1] % self.stride == 0 else 1
            images = F.avg_pool2d(images, window, self.stride)
        return F.pad(images, (0, 0, 0, 0, 0, self.new_channels)) if self.new_channels else images

    def forward(self, images: Tensor) -> Tensor:
        out = F.leaky_relu(self.normalisation1(self.convolution1(images)), SLOPE)
        out = self.normalisation2(self.convolution2(out))
        return F.leaky_relu(out + self.shortcut(images), SLOPE)

    def lower(self, shape: kernels.Shape) -> list[kernels.Layer]:
        activation = nn.LeakyReLU(SLOPE)
        first = self.convolution1, self.normalisation1, activation
        main = kernels.lower(shape, *first, self.convolution2, self.normalisation2, activation)
        window = self.stride if shape[-1] % self.stride == 0 else 1
        changes = self.stride > 1 or self.new_channels
        shortcut = [kernels.EveryOther(shape, self.stride, window, self.new_channels)] if changes else []
        return [kernels.Residual(main, shortcut)]


class PlainResNet(nn.Module):
    """ResNet-18 as it is usually built: 7×7 stem, max-pool, ReLU, 1×1 convolutions on the shortcuts."""

    precision = "float32"
    bfloat16_pays = 16

    def __init__(self, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.arguments = dict(width=width, channels=channels, classes=classes)
        self.stem = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
        self.normalisation = nn.BatchNorm2d(width)
        blocks = (PlainBlock(inputs * width, outputs * width, stride) for inputs, outputs, stride in BLOCKS)
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(8 * width, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def features(self, images: Tensor) -> Tensor:
        """images: (n, channels, height, width) in [0, 1] → (n, 8 · width)."""
        out = F.relu(self.normalisation(self.stem(images)))
        out = self.blocks(F.max_pool2d(out, 3, 2, 1))
        return out.mean((2, 3))  # no change at the paper's 28 × 28 pixels, of which one is left

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))

    def chains(self) -> dict[str, tuple[nn.Module, ...]]:
        first = self.stem, self.normalisation, nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        return {"features": (*first, self.blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())}


class PlainBlock(nn.Module):
    """Two convolutions and their shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.normalisation1 = nn.BatchNorm2d(outputs)
        self.convolution2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.normalisation2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, images: Tensor) -> Tensor:
        out = F.relu(self.normalisation1(self.convolution1(images)))
        out = self.normalisation2(self.convolution2(out))
        return F.relu(out + self.shortcut(images))

    def lower(self, shape: kernels.Shape) -> list[kernels.Layer]:
        first = self.convolution1, self.normalisation1, nn.ReLU()
        main = kernels.lower(shape, *first, self.convolution2, self.normalisation2, nn.ReLU())
        return [kernels.Residual(main, kernels.lower(shape, self.shortcut))]


def _bounded_convolution(inputs: int, outputs: int, stride: int, size: int, coefficient: float) -> nn.Conv2d:
    return bounded(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), size, coefficient)


class Classification(Task):
    """Cross-entropy by stochastic gradient descent, with momentum 0.9 and no weight decay (section 4.1).

    The precision is that of the products in convolutions: in bfloat16, sums, weights, the statistics of batch-norm and
    the power iterations stay in float32. So does everything that uses the trained network.
    """

    def __init__(self, network: SpectralResNet | PlainResNet, settings: dict[str, Any]) -> None:
        self.module = self.network = network
        network.precision = settings.get("precision", "float32")
        if network.precision == "auto":
            pays = network.arguments["width"] >= network.bfloat16_pays and compute.multiplies_bfloat16()
            network.precision = "bfloat16" if pays else "float32"
        self.optimisers = [torch.optim.SGD(network.parameters(), settings["learning_rate"], momentum=0.9)]

    def step(self, batch: Batch) -> dict[str, Tensor]:
        reduced = self.network.precision == "bfloat16"
        with torch.autocast(batch.images.device.type, torch.bfloat16, enabled=reduced):
            logits = self.module(batch.images).float()
        loss = F.cross_entropy(logits, batch.labels)
        descend(self.optimisers[0], loss)
        return {"loss": loss, "accuracy": (logits.argmax(1) == batch.labels).float().mean()}

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        return {"validation_accuracy": accuracy(self.network, images, labels)}


@torch.no_grad()
def accuracy(network: Any, images: Tensor, labels: Tensor, features: Tensor | None = None) -> float:
    """The share of images (n, channels, height, width) that a classifier in evaluation mode labels as `labels` (n,)."""
    predictions = network.head(features_of(network, images) if features is None else features).argmax(1)
    return (predictions == labels.to(predictions.device)).double().mean().item()
