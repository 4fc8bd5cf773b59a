"""How the autoencoder learns."""

import torch
from torch import Tensor
from torch.nn import functional as F

from deduce.models.autoencoder import Autoencoder
from deduce.training import Batch, Task, descend


class Autoencoding(Task):
    """Mean squared error per pixel, by Adam."""

    def __init__(self, network: Autoencoder, learning_rate: float) -> None:
        self.module = network
        self.optimisers = [torch.optim.Adam(network.parameters(), learning_rate)]

    def step(self, batch: Batch) -> dict[str, Tensor]:
        loss = F.mse_loss(self.module(batch.images), batch.images)
        descend(self.optimisers[0], loss)
        return {"loss": loss}

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        errors = [F.mse_loss(self.module(some), some) * len(some) for some in images.split(1000)]
        return {"validation_loss": float(sum(errors)) / len(images)}
