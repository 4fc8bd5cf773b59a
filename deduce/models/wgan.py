"""The Wasserstein GAN of the AnoGAN realism score, for images of 28×28 pixels."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

from deduce import compute
from deduce.frechet import PrincipalComponents
from deduce.training import Batch, Task, descend

SLOPE = 0.2  # of the critic's LeakyReLU


class Generator(nn.Module):
    """Latent vectors (n, latent) from N(0, I) → images (n, channels, 28, 28) in [0, 1]."""

    def __init__(self, latent: int, channels: int, width: int) -> None:
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

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        # No biases: before a batch-norm they have no effect, and a constant shift does not change the critic's loss.
        self.convolution1 = spectral_norm(nn.Conv2d(channels, width, 5, 2, 2, bias=False))
        self.normalisation1 = nn.BatchNorm2d(width)
        self.convolution2 = spectral_norm(nn.Conv2d(width, 2 * width, 5, 2, 2, bias=False))
        self.normalisation2 = nn.BatchNorm2d(2 * width)
        self.convolution3 = spectral_norm(nn.Conv2d(2 * width, 1, 5, 2, bias=False))

    def features(self, images: Tensor) -> Tensor:
        """f_D: the output of the second convolution, (n, 2 · width, 7, 7), before normalisation and activation."""
        return self.convolution2(F.leaky_relu(self.normalisation1(self.convolution1(images)), SLOPE))

    def forward(self, images: Tensor) -> Tensor:
        out = F.leaky_relu(self.normalisation2(self.features(images)), SLOPE)
        return self.convolution3(out).flatten(1)


class WGAN(nn.Module):
    """Both networks, as they are saved: `generator` and `critic`."""

    def __init__(self, latent: int, channels: int, width: int, critic_width: int) -> None:
        super().__init__()
        self.arguments = dict(latent=latent, channels=channels, width=width, critic_width=critic_width)
        self.generator = Generator(latent, channels, width)
        self.critic = Critic(channels, critic_width)

    def forward(self, latent: Tensor) -> Tensor:
        return self.generator(latent)


def _upwards(inputs: int, outputs: int, kernel: int, stride: int) -> tuple[nn.Module, ...]:
    return nn.ConvTranspose2d(inputs, outputs, kernel, stride, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()


class AdversarialGeneration(Task):
    """Wasserstein GAN: each batch is one critic update, every `critic_steps`-th also one generator update.

    The critic's constraint is its spectral normalisation: no clipping, no gradient penalty. The saved generator has the
    exponential moving average of the weights, which is much steadier than the last weights. The authors' recipe is not
    published; docs/models.md says how this one was found.
    """

    def __init__(self, network: WGAN, settings: dict[str, Any]) -> None:
        self.wgan, self.average = network, copy.deepcopy(network.generator)
        self.module = nn.ModuleDict({"wgan": self.wgan, "average": self.average})
        self.components: PrincipalComponents | None = None
        self.critic_steps, self.averaging = settings["critic_steps"], settings["averaging"]
        self.optimisers = [
            torch.optim.Adam(network.generator.parameters(), settings["learning_rate"], betas=(0.5, 0.9)),
            torch.optim.Adam(network.critic.parameters(), settings["critic_learning_rate"], betas=(0.5, 0.9)),
        ]

    def step(self, batch: Batch) -> dict[str, Tensor]:
        generator, critic = self.wgan.generator, self.wgan.critic
        both = (batch.number + 1) % self.critic_steps == 0
        with torch.set_grad_enabled(both):
            samples = generator(batch.noise(len(batch.images), generator.latent))
        critic_loss = critic(samples.detach()).mean() - critic(batch.images).mean()
        descend(self.optimisers[1], critic_loss)
        if not both:
            return {"critic_loss": critic_loss}
        critic.requires_grad_(False)
        loss = -critic(samples).mean()  # the same samples: making new ones would cost a third more
        descend(self.optimisers[0], loss)
        critic.requires_grad_(True)
        self._update_average()
        return {"critic_loss": critic_loss, "generator_loss": loss}

    @torch.no_grad()
    def _update_average(self) -> None:
        current = self.wgan.generator.state_dict()
        for name, average in self.average.state_dict().items():
            if average.is_floating_point():
                average.lerp_(current[name], 1 - self.averaging)
            else:
                average.copy_(current[name])

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        latent = torch.randn(2000, self.average.latent, generator=compute.generator("validation")).to(images)
        samples = self.average(latent)
        self.components = self.components or PrincipalComponents(images[:2000])  # of the same images in every epoch
        return {"mean_pixel": samples.mean().item(), "sample_distance": self.components.distance(samples)}

    def result(self) -> nn.Module:
        finished = copy.deepcopy(self.wgan)
        finished.generator = self.average
        return finished
