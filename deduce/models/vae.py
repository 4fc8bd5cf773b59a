"""The variational autoencoder in whose latent space REVISE searches."""

from typing import cast

from torch import Tensor, nn


class VAE(nn.Module):
    """Images (n, channels, size, size) in [0, 1]; `size` is a multiple of 4."""

    def __init__(self, latent: int = 32, channels: int = 1, size: int = 28) -> None:
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
        self.decoder = nn.Sequential(  # sides for 28 pixels: 7 → 13 → 27 → 28
            nn.Linear(latent, 64 * quarter**2),
            nn.ReLU(),
            nn.Unflatten(1, (64, quarter, quarter)),
            nn.ConvTranspose2d(64, 32, 5, 2, 2),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 32, 5, 2, 1),
            nn.ReLU(),
            nn.ZeroPad2d((1, 0, 1, 0)),
            nn.ConvTranspose2d(32, channels, 3, 1, 1),
            nn.Sigmoid(),
        )

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance of the latent vector, each (n, latent)."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        return cast(Tensor, mean), cast(Tensor, log_variance)

    def decode(self, latent: Tensor) -> Tensor:
        """latent: (n, latent) → images in [0, 1]."""
        return self.decoder(latent)

    def forward(self, images: Tensor) -> Tensor:
        """The reconstruction that decodes the mean, without noise."""
        return self.decode(self.encode(images)[0])


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL divergence of N(mean, exp(log_variance)) from N(0, 1), per dimension: (n, latent)."""
    return (mean.square() + log_variance.exp() - log_variance - 1) / 2
