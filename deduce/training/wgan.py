"""How the WGAN learns. The authors' recipe is not published; docs/models.md says how this one was found."""

import copy

import torch
from torch import Tensor, nn

from deduce import compute
from deduce.frechet import sample_distance
from deduce.models.wgan import WGAN
from deduce.training import Batch, Task, descend


class AdversarialGeneration(Task):
    """Wasserstein GAN: each batch is one critic update, every `critic_steps`-th also one generator update.

    The critic's constraint is its spectral normalisation: no clipping, no gradient penalty. What is saved has the
    exponential moving average of the generator's weights, which is much steadier than the last ones.
    """

    def __init__(
        self, network: WGAN, learning_rate: float, critic_learning_rate: float, critic_steps: int, averaging: float
    ) -> None:
        self.wgan, self.average = network, copy.deepcopy(network.generator)
        self.module = nn.ModuleDict({"wgan": self.wgan, "average": self.average})
        self.critic_steps, self.averaging = critic_steps, averaging
        self.optimisers = [
            torch.optim.Adam(network.generator.parameters(), learning_rate, betas=(0.5, 0.9)),
            torch.optim.Adam(network.critic.parameters(), critic_learning_rate, betas=(0.5, 0.9)),
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
        now = self.wgan.generator.state_dict()
        for name, kept in self.average.state_dict().items():
            if kept.is_floating_point():
                kept.lerp_(now[name], 1 - self.averaging)
            else:
                kept.copy_(now[name])

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        latent = torch.randn(2000, self.average.latent, generator=compute.generator("validation")).to(images)
        samples = self.average(latent)
        return {"mean_pixel": samples.mean().item(), "sample_distance": sample_distance(samples, images[:2000])}

    def result(self) -> nn.Module:
        finished = WGAN(**self.wgan.arguments)
        finished.generator.load_state_dict(self.average.state_dict())
        finished.critic.load_state_dict(self.wgan.critic.state_dict())
        return finished
