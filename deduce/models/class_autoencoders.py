"""One small autoencoder per class and one of all classes: what the interpretability scores IM1 and IM2 compare."""

from itertools import pairwise

import torch
from torch import Tensor, nn


class ClassAutoencoders(nn.Module):
    """`classes` + 1 networks of one hidden layer each side of a narrow latent layer; the last is of all classes.

    The bottleneck is narrow on purpose: an autoencoder that can copy any image cannot tell its class from others.
    """

    def __init__(self, classes: int = 10, pixels: int = 784, hidden: int = 128, latent: int = 16) -> None:
        super().__init__()
        self.arguments = dict(classes=classes, pixels=pixels, hidden=hidden, latent=latent)
        self.classes = classes
        sizes = [pixels, hidden, latent, hidden, pixels]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for inputs, outputs in pairwise(sizes):
            bound = inputs**-0.5
            self.weights.append(torch.empty(classes + 1, inputs, outputs).uniform_(-bound, bound))
            self.biases.append(torch.zeros(classes + 1, 1, outputs))

    def forward(self, images: Tensor) -> Tensor:
        """What network i makes of images[i]: (classes + 1, n, pixels) in [0, 1] → the same shape and range."""
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            images = torch.baddbmm(bias, images, weight)
            if layer in (0, 2):
                images = images.relu()
        return images.sigmoid()

    def reconstructions(self, images: Tensor) -> Tensor:
        """What every network makes of the same images (n, channels, height, width): (classes + 1, n, pixels)."""
        return self(images.flatten(1).expand(self.classes + 1, -1, -1))
