"""Equation 7 as one would first write it down, for tests and benchmarks to compare the library with.

As the released code works: the images of a batch descend together, one restart after the other, through the networks as
they were trained, by automatic differentiation with respect to everything.
"""

import torch
from torch import Tensor

from deduce.models.wgan import WGAN


def textbook_scores(
    wgan: WGAN,
    images: Tensor,
    starts: Tensor,
    steps: int,
    step_size: float,
    feature_weight: float = 0.1,
    reset_step_per_restart: bool = False,
) -> Tensor:
    """images: (n, 1, 28, 28); starts: (n, restarts, latent) → the least loss over the restarts, (n,)."""
    best = torch.full((len(images),), torch.inf).to(images)
    features_of_images = wgan.critic.features(images).detach()
    rate = step_size
    for restart in range(starts.shape[1]):
        latent = starts[:, restart].clone().requires_grad_()
        if reset_step_per_restart:
            rate = step_size
        for step in range(steps):
            latent.grad = None
            wgan.zero_grad()
            generated = wgan.generator(latent)
            by_pixel = (images - generated).abs().sum((1, 2, 3))
            losses = by_pixel + feature_weight * (features_of_images - wgan.critic.features(generated)).abs().sum(
                (1, 2, 3)
            )
            losses.sum().backward()
            with torch.no_grad():
                latent -= rate * latent.grad
            if step == int(0.8 * steps):
                rate /= 10
        best = torch.minimum(best, losses.detach())
    return best
