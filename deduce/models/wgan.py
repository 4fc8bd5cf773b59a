"""The Wasserstein GAN on which the AnoGAN realism score stands, for images of 28×28 pixels."""

from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

SLOPE = 0.2  # of the critic's LeakyReLU


class Generator(nn.Module):
    """Latent vectors (n, latent) from N(0, I) → images (n, channels, 28, 28) in [0, 1]."""

    def __init__(self, latent: int = 64, channels: int = 1, width: int = 64) -> None:
        super().__init__()
        self.latent = latent
        self.layers = nn.Sequential(  # sides: 1 → 3 → 6 → 13 → 28
            nn.Unflatten(1, (latent, 1, 1)),
            *_upwards(latent, 4 * width, 3, 2),
            *_upwards(4 * width, 2 * width, 4, 1),
            *_upwards(2 * width, width, 3, 2),
            nn.ConvTranspose2d(width, channels, 4, 2),
            nn.Sigmoid(),
        )

    def forward(self, latent: Tensor) -> Tensor:
        return self.layers(latent)


class Critic(nn.Module):
    """Images (n, channels, 28, 28) → (n, 4): a critic's value for each of 2×2 overlapping regions."""

    def __init__(self, channels: int = 1, width: int = 16) -> None:
        super().__init__()
        # No biases: before a batch-norm they do nothing, and a constant shift of the critic is no part of its loss.
        self.convolution1 = spectral_norm(nn.Conv2d(channels, width, 5, 2, 2, bias=False))
        self.normalisation1 = nn.BatchNorm2d(width)
        self.convolution2 = spectral_norm(nn.Conv2d(width, 2 * width, 5, 2, 2, bias=False))
        self.normalisation2 = nn.BatchNorm2d(2 * width)
        self.convolution3 = spectral_norm(nn.Conv2d(2 * width, 1, 5, 2, bias=False))

    def features(self, images: Tensor) -> Tensor:
        """f_D: what the second convolution gives, (n, 2 · width, 7, 7), before normalisation and activation."""
        return self.convolution2(F.leaky_relu(self.normalisation1(self.convolution1(images)), SLOPE))

    def forward(self, images: Tensor) -> Tensor:
        out = F.leaky_relu(self.normalisation2(self.features(images)), SLOPE)
        return self.convolution3(out).flatten(1)


class WGAN(nn.Module):
    """Both networks, as they are saved: `generator` and `critic`."""

    def __init__(self, latent: int = 64, channels: int = 1, width: int = 64, critic_width: int = 16) -> None:
        super().__init__()
        self.arguments = dict(latent=latent, channels=channels, width=width, critic_width=critic_width)
        self.generator = Generator(latent, channels, width)
        self.critic = Critic(channels, critic_width)

    def forward(self, latent: Tensor) -> Tensor:
        return self.generator(latent)


def _upwards(inputs: int, outputs: int, kernel: int, stride: int) -> tuple[nn.Module, ...]:
    return (
        nn.ConvTranspose2d(inputs, outputs, kernel, stride, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
