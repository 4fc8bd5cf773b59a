"""The AnoGAN score (equation 7): how near a GAN comes to an image, by gradient descent in its latent space.

Low is realistic. The defaults are the paper's setting, as its released code reads it (see `reset_step_per_restart`).
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deduce import compute
from deduce.models.wgan import WGAN
from deduce.realism.frozen import FrozenWGAN

log = logging.getLogger(__name__)

ROWS = {"cpu": 72, "cuda": 1536}  # descents at a time: what fits the caches of a core, or fills a GPU
DECAY_AFTER = 0.8  # of the steps: then the step size is divided by ten, once
DECAY = 0.1


@dataclass(frozen=True)
class AnoGAN:
    """Scores images; its parameters decide the scores, and nothing else does (order, batch, number of images)."""

    steps: int = 4000
    restarts: int = 3
    step_size: float = 0.03
    feature_weight: float = 0.1  # λ
    # False, as released: the divided step size is kept, so that restart r starts at step_size / 10^r.
    # True, as the paper reads: every restart starts at step_size.
    reset_step_per_restart: bool = False
    seed: int = 0

    def score(
        self,
        wgan: WGAN,
        images: np.ndarray,
        keys: Sequence[tuple[int | str, ...]],
        dtype: torch.dtype = torch.float32,
    ) -> np.ndarray:
        """images: (n, channels, 28, 28) in [0, 1]; keys: what seeds each one's starting points → scores (n,).

        The score is the least over the restarts of the loss where its descent ended. NaN for an image with NaN or
        infinite pixels; that, and images without any ink, are said in the log.
        """
        finite = np.isfinite(images).all(axis=(1, 2, 3))
        _mention(~finite, "have pixels that are not finite: their scores are NaN")
        _mention(finite & ~images.any(axis=(1, 2, 3)), "are zero everywhere: scored, but they show nothing")
        scores = np.full(len(images), np.nan, np.float32)
        scorable = np.flatnonzero(finite).tolist()
        if len(scorable):
            starts = torch.stack([self._starts(wgan, keys[i]) for i in scorable]).flatten(0, 1)
            losses = self._descend(wgan, torch.as_tensor(images[scorable]).to(dtype), starts.to(dtype))
            scores[scorable] = losses.unflatten(0, (-1, self.restarts)).amin(1).numpy()
        return scores

    def _starts(self, wgan: WGAN, key: tuple[int | str, ...]) -> Tensor:
        """(restarts, latent) from N(0, I)."""
        return torch.stack(
            [
                torch.randn(wgan.generator.latent, generator=compute.generator("anogan", self.seed, *key, restart))
                for restart in range(self.restarts)
            ]
        )

    def _descend(self, wgan: WGAN, images: Tensor, starts: Tensor) -> Tensor:
        """The losses (n · restarts,) where the descents from `starts` (n · restarts, latent) end."""
        device = compute.device()
        rows = ROWS.get(device.type, ROWS["cpu"])
        wgan = wgan.to(device)
        restart = torch.arange(len(starts)) % self.restarts
        step_sizes = self.step_size * (torch.ones(len(starts)) if self.reset_step_per_restart else DECAY**restart)
        losses = torch.empty(len(starts), dtype=starts.dtype)
        own = threading.local()

        def descend(block: Tensor) -> None:
            # A last block that is not full repeats its rows: every block has the same shape, so the same arithmetic.
            if not hasattr(own, "frozen"):
                own.frozen = FrozenWGAN(wgan, rows, self.feature_weight, starts.dtype)
            image = images[block // self.restarts]
            ended = self._descend_block(own.frozen, image, starts[block].to(device), step_sizes[block].to(device))
            losses[block] = ended.cpu()

        blocks = list(_blocks(len(starts), rows))
        with side_by_side(len(blocks) if device.type == "cpu" else 1) as each:
            for done, _ in enumerate(each(descend, blocks), 1):
                log.info("descents: %d of %d", min(done * rows, len(starts)), len(starts))
        return losses

    @torch.no_grad()
    def _descend_block(self, frozen: FrozenWGAN, images: Tensor, latent: Tensor, step_sizes: Tensor) -> Tensor:
        laid_out, features = frozen.prepare(images)
        step_sizes = step_sizes[:, None].clone()
        for step in range(self.steps - 1):  # the released code judges the last step before it updates
            latent -= step_sizes * frozen.gradient(latent, laid_out, features)
            if step == int(DECAY_AFTER * self.steps):
                step_sizes *= DECAY
        return frozen.loss(latent, laid_out, features)


@contextmanager
def side_by_side(at_most: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """A `map` that works on as many things at a time as torch has threads: one alone is too small to be divided."""
    threads = torch.get_num_threads()
    if min(threads, at_most) == 1:
        yield map
        return
    try:
        with ThreadPoolExecutor(min(threads, at_most), initializer=torch.set_num_threads, initargs=(1,)) as workers:
            yield workers.map
    finally:
        torch.set_num_threads(threads)  # MKL's number is not the worker's alone


def _blocks(n: int, rows: int) -> Iterator[Tensor]:
    for first in range(0, n, rows):
        block = torch.arange(first, min(first + rows, n))
        yield block[torch.arange(rows) % len(block)]


def _mention(rows: np.ndarray, what: str) -> None:
    if rows.any():
        first = ", ".join(map(str, np.flatnonzero(rows)[:5]))
        log.warning("%d images %s (rows %s%s)", rows.sum(), what, first, ", …" if rows.sum() > 5 else "")
