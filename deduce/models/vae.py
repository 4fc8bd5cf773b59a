"""The variational autoencoder in whose latent space REVISE searches."""

from typing import Any

import torch
from torch import Tensor, nn

from deduce.training import Batch, Task, descend


class VAE(nn.Module):
    """Images (n, channels, size, size) in [0, 1]; `size` is a multiple of 4."""

    def __init__(self, latent: int, channels: int, size: int) -> None:
        super().__init__()
        self.arguments = dict(latent=latent, channels=channels, size=size)
        quarter = size // 4
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, 32, 5, 2, 2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 5, 2, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * quarter**2, 2 * latent),
        )
        self.decoder = nn.Sequential(  # sides for 28 pixels: 7 → 13 → 27 → 29 → 28
            nn.Linear(latent, 64 * quarter**2),
            nn.ReLU(),
            nn.Unflatten(1, (64, quarter, quarter)),
            nn.ConvTranspose2d(64, 32, 5, 2, 2),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 32, 5, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, channels, 3),
            nn.ZeroPad2d((0, -1, 0, -1)),
            nn.Sigmoid(),
        )

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance of the latent vector, each (n, latent)."""
        return self.encoder(images).chunk(2, dim=1)

    def decode(self, latent: Tensor) -> Tensor:
        """latent: (n, latent) → images in [0, 1]."""
        return self.decoder(latent)

    def chains(self) -> dict[str, tuple[nn.Module, ...]]:
        return {"decode": (self.decoder,)}

    def forward(self, images: Tensor) -> Tensor:
        """The reconstruction that decodes the mean, without noise."""
        return self.decode(self.encode(images)[0])


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL divergence of N(mean, exp(log_variance)) from N(0, 1), per dimension: (n, latent)."""
    return (mean.square() + log_variance.exp() - log_variance - 1) / 2


class VariationalAutoencoding(Task):
    """Squared error + β · KL divergence, by Adam. β rises linearly from 0.01 to 1 during `annealing_epochs`."""

    def __init__(self, network: VAE, settings: dict[str, Any]) -> None:
        super().__init__(network, settings)
        self.annealing = round(settings["annealing_epochs"] * settings["training_images"] / settings["batch_size"])

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
        for block in images.split(1000):
            mean, log_variance = self.network.encode(block)
            error += (self.network.decode(mean) - block).square().sum().item() / len(images)
            kl += divergence(mean, log_variance).sum().item() / len(images)
        return {"validation_squared_error": error, "validation_kl": kl}
