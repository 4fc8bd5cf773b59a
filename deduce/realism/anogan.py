"""The AnoGAN score (equation 7): how near a GAN comes to an image, by gradient descent in its latent space.

A low score is realistic. The defaults are those of the paper's released code (see `reset_step_per_restart`).
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deduce import compute
from deduce.fold import device_of, frozen
from deduce.realism.fast_wgan import FastWGAN
from deduce.realism.score import Images

log = logging.getLogger(__name__)

CPU_ROWS = 72  # descents in one block: as many as fit the caches of a core
GPU_ROWS = 1536
DECAY_AFTER = 0.8  # of the steps: then the step size is divided by ten, once
DECAY = 0.1


def score(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> Tensor:
    """The scorer of the metric `agan`: an image's starting points depend on its index and target alone."""
    keys = list(zip(images.index.tolist(), images.targets.tolist(), strict=True))
    return AnoGAN(**settings["anogan"]).score(models["wgan"], images.pixels, keys)


class AutodiffGAN:
    """The loss of equation 7 and its gradient, by automatic differentiation.

    Works for any `gan.generator(latent)` and `gan.critic.features(images)`, any image size and any device.
    """

    def __init__(self, gan: nn.Module, feature_weight: float) -> None:
        self.gan = frozen(gan, dtype=None)
        self.feature_weight = feature_weight

    def prepare(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The images and their features f_D, the last two arguments of `loss` and `gradient`."""
        return images, self.gan.critic.features(images)

    def loss(self, latent: Tensor, images: Tensor, features: Tensor) -> Tensor:
        """Equation 7, per row: (rows,)."""
        generated = self.gan.generator(latent)
        by_pixel, by_feature = generated - images, self.gan.critic.features(generated) - features
        return by_pixel.abs().flatten(1).sum(1) + self.feature_weight * by_feature.abs().flatten(1).sum(1)

    def gradient(self, latent: Tensor, images: Tensor, features: Tensor) -> Tensor:
        """The gradient of equation 7 in the latent vectors: (rows, latent)."""
        with torch.enable_grad():
            latent = latent.detach().requires_grad_()
            return torch.autograd.grad(self.loss(latent, images, features).sum(), latent)[0]


@dataclass(frozen=True)
class AnoGAN:
    """Scores images. A score depends on these parameters, the GAN, the image and its key, but not on other images."""

    steps: int = 4000
    restarts: int = 3
    step_size: float = 0.03
    feature_weight: float = 0.1  # λ
    # False, as in the released code: the divided step size is kept, and restart r starts at step_size / 10^r.
    # True, as in the paper's text: every restart starts at step_size.
    reset_step_per_restart: bool = False
    seed: int = 0

    def score(self, gan: Any, images: Tensor, keys: Sequence[tuple[int | str, ...]]) -> Tensor:
        """images: (n, channels, height, width) in [0, 1]; keys: n seeds of starting points → scores (n,).

        gan: has `generator(latent)`, `generator.latent` (the dimension) and `critic.features(images)`, and is on the
        images' device. The score is the smallest final loss of the restarts. It is NaN for images with NaN or infinite
        pixels. The log mentions these, and images that are zero everywhere.
        """
        finite = images.isfinite().flatten(1).all(1)
        _mention(~finite, "have pixels that are not finite: their scores are NaN")
        _mention(finite & ~images.flatten(1).any(1), "are zero everywhere: scored, but they show nothing")
        scores = images.new_full((len(images),), torch.nan)
        scorable = finite.nonzero()[:, 0]
        if len(scorable):
            starts = torch.cat([self._starts(gan.generator.latent, keys[row]) for row in scorable.tolist()])
            losses = self._descend(gan, images[scorable], starts.to(images))
            scores[scorable] = losses.unflatten(0, (-1, self.restarts)).amin(1)
        return scores

    def _starts(self, latent: int, key: tuple[int | str, ...]) -> Tensor:
        """(restarts, latent) from N(0, I)."""
        generators = [compute.generator("anogan", self.seed, *key, restart) for restart in range(self.restarts)]
        return torch.stack([torch.randn(latent, generator=generator) for generator in generators])

    def _descend(self, gan: Any, images: Tensor, starts: Tensor) -> Tensor:
        """The losses (n · restarts,) where the descents from `starts` (n · restarts, latent) end."""
        on_cpu = device_of(gan).type == "cpu"
        rows = CPU_ROWS if on_cpu else GPU_ROWS
        restart = torch.arange(len(starts)) % self.restarts
        step_sizes = self.step_size * (torch.ones(len(starts)) if self.reset_step_per_restart else DECAY**restart)
        step_sizes, losses = step_sizes.to(starts), torch.empty_like(starts[:, 0])
        of_thread = threading.local()  # threads cannot share the buffers of the fast path

        def descend(block: Tensor) -> None:
            if not hasattr(of_thread, "objective"):
                weight, fast = self.feature_weight, FastWGAN.supports(gan)
                of_thread.objective = FastWGAN(gan, weight, starts.dtype) if fast else AutodiffGAN(gan, weight)
            block = block.to(images.device)
            image = images[block // self.restarts]
            losses[block] = self._descend_block(of_thread.objective, image, starts[block], step_sizes[block])

        # The last block repeats rows to fill up, because only equal shapes give equal arithmetic.
        blocks = [block[torch.arange(rows) % len(block)] for block in torch.arange(len(starts)).split(rows)]
        with threaded_map(len(blocks) if on_cpu else 1) as each:
            for done, _ in enumerate(each(descend, blocks), 1):
                log.info("descents: %d of %d", min(done * rows, len(starts)), len(starts))
        return losses

    @torch.no_grad()
    def _descend_block(
        self, objective: FastWGAN | AutodiffGAN, images: Tensor, latent: Tensor, step_sizes: Tensor
    ) -> Tensor:
        prepared, step_sizes = objective.prepare(images), step_sizes[:, None].clone()
        for step in range(self.steps - 1):  # the released code measures the loss before its last update
            latent -= step_sizes * objective.gradient(latent, *prepared)
            if step == int(DECAY_AFTER * self.steps):
                step_sizes *= DECAY
        return objective.loss(latent, *prepared)


@contextmanager
def threaded_map(at_most: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """A `map` that uses one of torch's threads per item, for items that are too small to divide among threads."""
    threads = torch.get_num_threads()
    if (count := min(threads, at_most)) == 1:
        yield map
        return
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            yield workers.map
    finally:
        torch.set_num_threads(threads)  # a worker's call also changes the number of MKL's threads everywhere


def _mention(rows: Tensor, finding: str) -> None:
    if positions := rows.nonzero()[:, 0].tolist():
        first = ", ".join(map(str, positions[:5])) + ", …" * (len(positions) > 5)
        log.warning("%d images %s (rows %s)", len(positions), finding, first)
