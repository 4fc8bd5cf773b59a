"""How the VAE learns."""

import torch
from torch import Tensor

from deduce.models.vae import VAE, divergence
from deduce.training import Batch, Task, descend


class VariationalAutoencoding(Task):
    """Squared error + β · KL divergence, by Adam. β rises linearly from 0.01 to 1 during `annealing` batches."""

    def __init__(self, network: VAE, learning_rate: float, annealing: int) -> None:
        self.module = self.network = network
        self.annealing = annealing
        self.optimisers = [torch.optim.Adam(network.parameters(), learning_rate)]

    def step(self, batch: Batch) -> dict[str, Tensor]:
        beta = min(0.01 + (batch.number + 1) / self.annealing, 1.0) if self.annealing else 1.0
        mean, log_variance = self.network.encode(batch.images)
        latent = mean + batch.noise(*mean.shape) * (log_variance / 2).exp()
        error = (self.network.decode(latent) - batch.images).square().sum()
        kl = divergence(mean, log_variance).sum()
        descend(self.optimisers[0], error + beta * kl)
        values = {"loss": error + beta * kl, "squared_error": error, "kl": kl}
        return {name: value / len(mean) for name, value in values.items()} | {"beta": torch.tensor(beta)}

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        error = kl = 0.0
        for some in images.split(1000):
            mean, log_variance = self.network.encode(some)
            error += (self.network.decode(mean) - some).square().sum().item() / len(images)
            kl += divergence(mean, log_variance).sum().item() / len(images)
        return {"validation_squared_error": error, "validation_kl": kl}
