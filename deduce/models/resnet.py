"""The two classifiers: the spectrally normalised ResNet-18 of DDU, and the plain ResNet-18 of the baselines.

Both give logits, and say what they are made of: `features(images)` and the linear layer `head` on top.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.models.spectral import bounded

STAGES = ((1, 1), (2, 2), (4, 2), (8, 2))  # width as a multiple of the first, stride; two blocks each
SLOPE = 0.01  # of the LeakyReLU


class SpectralResNet(nn.Module):
    """ResNet-18 with every convolution 3×3 and softly bounded, LeakyReLU, and shortcuts without weights."""

    def __init__(
        self, width: int = 64, channels: int = 1, classes: int = 10, size: int = 28, coefficient: float = 4.0
    ) -> None:
        super().__init__()
        self.arguments = dict(width=width, channels=channels, classes=classes, size=size, coefficient=coefficient)
        self.stem = _bounded_convolution(channels, width, 1, size, coefficient)
        self.normalisation = nn.BatchNorm2d(width)
        blocks, inputs = [], width
        for multiple, stride in STAGES:
            for step in (stride, 1):
                blocks.append(SpectralBlock(inputs, multiple * width, step, size, coefficient))
                inputs, size = multiple * width, -(-size // step)
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)

    def features(self, images: Tensor) -> Tensor:
        """images: (n, channels, size, size) in [0, 1] → (n, 8 · width), what the densities are fitted on."""
        out = F.leaky_relu(self.normalisation(self.stem(images)), SLOPE)
        return self.blocks(out).mean((2, 3))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


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
            # An odd side has no whole windows: every stride-th pixel is taken, so that the sizes agree.
            window = self.stride if images.shape[-1] % self.stride == 0 else 1
            images = F.avg_pool2d(images, window, self.stride)
        return F.pad(images, (0, 0, 0, 0, 0, self.new_channels)) if self.new_channels else images

    def forward(self, images: Tensor) -> Tensor:
        out = F.leaky_relu(self.normalisation1(self.convolution1(images)), SLOPE)
        out = self.normalisation2(self.convolution2(out))
        return F.leaky_relu(out + self.shortcut(images), SLOPE)


class PlainResNet(nn.Module):
    """ResNet-18 as it is usually built: 7×7 stem, max-pool, ReLU, 1×1 convolutions on the shortcuts."""

    def __init__(self, width: int = 64, channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        self.arguments = dict(width=width, channels=channels, classes=classes)
        self.stem = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
        self.normalisation = nn.BatchNorm2d(width)
        blocks, inputs = [], width
        for multiple, stride in STAGES:
            for step in (stride, 1):
                blocks.append(PlainBlock(inputs, multiple * width, step))
                inputs = multiple * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def features(self, images: Tensor) -> Tensor:
        """images: (n, channels, height, width) in [0, 1] → (n, 8 · width)."""
        out = F.relu(self.normalisation(self.stem(images)))
        out = self.blocks(F.max_pool2d(out, 3, 2, 1))
        return out.mean((2, 3))  # the paper's 28 pixels have become one: this changes nothing there

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


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


def _bounded_convolution(inputs: int, outputs: int, stride: int, size: int, coefficient: float) -> nn.Conv2d:
    return bounded(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), size, coefficient)


@torch.no_grad()
def all_features(network: SpectralResNet | PlainResNet, images: Tensor, batch_size: int = 1000) -> Tensor:
    """Features (n, d) of many images (n, channels, height, width), by an evaluated classifier, on its device."""
    device = network.head.weight.device
    return torch.cat([network.features(some.to(device)) for some in images.split(batch_size)])


@torch.no_grad()
def accuracy(network: SpectralResNet | PlainResNet, images: Tensor, labels: Tensor) -> float:
    """The share of images (n, channels, height, width) that an evaluated classifier gives their `labels` (n,)."""
    predictions = network.head(all_features(network, images)).argmax(1)
    return (predictions == labels.to(predictions.device)).double().mean().item()
