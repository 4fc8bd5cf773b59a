"""The one search that every method runs on: step all live rows, retire those that are done, refill, until none is left.

A *row* is one pair of an image and a target. A method says how a row starts, what is descended and how a step is
made; the engine does the rest, for any number of pairs in batches of bounded size. Rows never see each other, so
that a pair's counterfactual does not depend on what else is in its batch.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from deduce.errors import InputError
from deduce.fold import device_of, fold

Rows = SimpleNamespace
"""The live rows, as tensors whose first dimension is the row: `index` in the caller's order, `image` (the current
counterfactual, in [0, 1]), `target`, `iterations` (updates made), `confidence` (in the target, at `image`), and
whatever the method's `start` adds. Rows retire by gathering all of these."""

Models = SimpleNamespace
"""What a method searches with, prepared once: always a `classifier`, and what else its `evaluate` needs."""

Path = tuple[Tensor, Tensor]
"""Flattened positions, (n, q), that a step changed, and the values, (n, q), that it set there."""


class Method:
    """What a counterfactual method supplies. Subclasses are dataclasses whose fields are their hyper-parameters."""

    name: ClassVar[str]  # as in the config
    display_name: ClassVar[str]  # as in the paper
    variable: ClassVar[str] = "image"  # which of the rows' tensors is searched
    changes_pixels: ClassVar[bool] = False  # whether its steps change single pixels, and a path is recorded
    target_confidence: float  # γ
    max_iterations: int
    batch_size: int  # rows that are live at once; bounds the memory

    def __post_init__(self) -> None:
        if not 0 < self.target_confidence < 1:
            raise InputError(f"target_confidence is {self.target_confidence}; it must lie between 0 and 1.")
        if self.max_iterations < 0 or self.batch_size < 1:
            raise InputError("max_iterations must be at least 0 and batch_size at least 1.")

    def start(self, models: Models, rows: Rows) -> None:
        """Adds to fresh rows what this method keeps per row."""

    def evaluate(self, models: Models, rows: Rows) -> tuple[Tensor, Tensor]:
        """The loss to descend, (n,), as a function of `rows.<variable>`; and the confidence in the target, (n,)."""
        raise NotImplementedError

    def step(self, rows: Rows, gradient: Tensor) -> Path | None:
        """Updates the rows in place by the gradient of their loss; returns what it changed if it `changes_pixels`."""
        raise NotImplementedError

    def finished(self, rows: Rows) -> Tensor:
        """Which rows, (n,) bool, have nothing left to do; the limit on iterations is the engine's."""
        return self.found(rows)

    def found(self, rows: Rows) -> Tensor:
        """Which rows, (n,) bool, hold a counterfactual in `image` with its `confidence`."""
        return rows.confidence >= self.target_confidence

    def settings(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]


@dataclass
class Result:
    """One row per pair, in the order asked, on the CPU; where nothing was `found`, the state the search ended in."""

    counterfactual: Tensor  # (n, channels, height, width) float32 in [0, 1]
    found: Tensor  # (n,) bool
    confidence: Tensor  # (n,) float32: in the target, at the counterfactual
    iterations: Tensor  # (n,) int64: updates made; 0 where the target was reached from the start
    # What changed when, for methods that change single pixels: row i's steps are path_offset[i]:path_offset[i + 1].
    path_offset: Tensor | None = None  # (n + 1,) int64
    path_pixel: Tensor | None = None  # (steps,) int32: position in the flattened image
    path_value: Tensor | None = None  # (steps,) float32: what it was set to

    @classmethod
    def empty(cls, images: Tensor) -> Self:
        n = len(images)
        return cls(
            counterfactual=torch.empty(images.shape),
            found=torch.zeros(n, dtype=torch.bool),
            confidence=torch.zeros(n),
            iterations=torch.zeros(n, dtype=torch.int64),
        )


def search(method: Method, models: Models, images: Tensor, targets: Tensor, progress: bool = False) -> Result:
    """Runs `method` on every pair. images: (n, channels, height, width) in [0, 1]; targets: (n,) integer.

    One forward and backward pass per iteration gives both the test of the confidence and the gradient of the step.
    """
    # Rows of one target lie together, because densities are fastest on few classes at a time.
    queue = torch.argsort(targets, stable=True)
    result = Result.empty(images)
    steps: list[tuple[Tensor, Tensor, Tensor]] = []
    rows, queue = _fresh(method, models, images, targets, queue, method.batch_size)
    quiet = not sys.stderr.isatty()
    with tqdm(
        total=len(images), desc=method.display_name, disable=not progress, mininterval=30 if quiet else 0.1
    ) as bar:
        while len(rows.index):
            gradient = gradient_of(method, models, rows)
            done = method.finished(rows) | rows.broken | (rows.iterations >= method.max_iterations)
            if retired := int(done.sum()):
                _record(result, _gather(rows, done), method)
                bar.update(retired)
                rows, gradient = _gather(rows, ~done), gradient[~done]
            if len(rows.index):
                with torch.no_grad():
                    path = method.step(rows, gradient)
                rows.iterations += 1
                if path is not None:
                    steps.append((rows.index, *path))
            if retired and len(queue):
                fresh, queue = _fresh(method, models, images, targets, queue, retired)
                rows = _joined(rows, fresh)
    if method.changes_pixels:
        _record_paths(result, steps)
    return result


def _fresh(
    method: Method, models: Models, images: Tensor, targets: Tensor, queue: Tensor, n: int
) -> tuple[Rows, Tensor]:
    """The first `n` pairs of the queue as rows at their start, and the rest of the queue."""
    index, rest = queue[:n], queue[n:]
    device = device_of(models.classifier)
    rows = Rows(
        index=index.to(device),
        image=images[index].to(device),
        target=targets[index].to(device),
        iterations=torch.zeros(len(index), dtype=torch.int64, device=device),
        confidence=torch.zeros(len(index), device=device),
        broken=torch.zeros(len(index), dtype=torch.bool, device=device),
    )
    with torch.no_grad():
        method.start(models, rows)
    return rows, rest


def gradient_of(method: Method, models: Models, rows: Rows) -> Tensor:
    """The gradient of each row's loss by its variable; sets the rows' confidence."""
    variable = getattr(rows, method.variable).requires_grad_()
    loss, confidence = method.evaluate(models, rows)
    (gradient,) = torch.autograd.grad(loss.sum(), variable)
    setattr(rows, method.variable, variable.detach())
    # A row whose loss has left the numbers (a diverging latent, say) can only end as not found.
    rows.broken = ~(loss.detach().isfinite() & confidence.detach().isfinite())
    rows.confidence = confidence.detach().float().masked_fill(rows.broken, 0)
    return gradient


def _gather(rows: Rows, mask: Tensor) -> Rows:
    keep = mask.nonzero().squeeze(1)
    return Rows(**{name: tensor[keep] for name, tensor in vars(rows).items()})


def _joined(rows: Rows, fresh: Rows) -> Rows:
    return Rows(**{name: torch.cat([tensor, getattr(fresh, name)]) for name, tensor in vars(rows).items()})


def _record(result: Result, rows: Rows, method: Method) -> None:
    index = rows.index.cpu()
    result.counterfactual[index] = rows.image.detach().cpu()
    result.found[index] = (method.found(rows) & ~rows.broken).cpu()
    result.confidence[index] = rows.confidence.cpu()
    result.iterations[index] = rows.iterations.cpu()


def _record_paths(result: Result, steps: Sequence[tuple[Tensor, Tensor, Tensor]]) -> None:
    """From the order in which steps were made to the order of pairs; each pair's own steps keep theirs."""
    nothing = (torch.zeros(0, dtype=torch.int64), torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0, 1))
    index, pixel, value = (torch.cat(parts).cpu() for parts in zip(*(steps or [nothing]), strict=True))
    order = torch.argsort(index, stable=True)
    counts = torch.bincount(index, minlength=len(result.found)) * pixel.shape[1]
    result.path_offset = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    result.path_pixel = pixel[order].flatten().to(torch.int32)
    result.path_value = value[order].flatten()


def change_pixels(images: Tensor, pixels: Tensor, change: Tensor) -> Tensor:
    """Adds `change` (n, q) at flattened positions `pixels` (n, q), in place and clipped; returns the new values."""
    flat = images.flatten(1)  # a view: rows are kept contiguous
    values = (flat.gather(1, pixels) + change).clamp_(0, 1)
    flat.scatter_(1, pixels, values)
    return values


def prepared(classifier: nn.Module, images: Any, needs: Sequence[str] = ()) -> nn.Module:
    """The classifier as it is searched through: folded, frozen, with all that the method `needs` of it."""
    for attribute in needs:
        if not callable(getattr(classifier, attribute, None)):
            raise InputError(
                f"the classifier ({type(classifier).__name__}) has no {attribute!r}: this method needs "
                "`features(images) -> (n, d)` and `head(features) -> logits`."
            )
    images = _images(images)
    try:
        return fold(classifier, images.shape[1:])
    except RuntimeError as error:
        raise InputError(
            f"the classifier does not accept images of shape {tuple(images.shape[1:])} ({str(error).splitlines()[0]})."
        ) from error


def checked_pairs(
    classifier: nn.Module, images: Any, targets: Any, allow_reached: bool = False
) -> tuple[Tensor, Tensor]:
    """Images and targets as CPU tensors, or an `InputError` that says what is wrong with them.

    A target that the classifier already predicts is an error, because nothing is left to explain; with
    `allow_reached`, one that has the confidence already is answered by the image itself, after no iterations.
    """
    images, targets = _images(images), _tensor(targets, "targets")
    inside = ((images >= 0) & (images <= 1)).flatten(1).all(1)  # false for NaN too
    if not inside.all():
        row = int((~inside).nonzero()[0])
        raise InputError(f"image {row} has values outside [0, 1] or NaN; pixels must lie between 0 and 1.")
    if targets.shape != images.shape[:1] or targets.is_floating_point() or targets.dtype == torch.bool:
        given = f"{targets.dtype} {tuple(targets.shape)}"
        raise InputError(f"targets must be one whole number per image, shape ({len(images)},), not {given}.")
    targets = targets.long()
    predictions, classes = _predictions(classifier, images if not allow_reached else images[:1])
    wrong = (targets < 0) | (targets >= classes)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(f"target {int(targets[row])} of image {row} is outside 0..{classes - 1}.")
    if not allow_reached and (reached := targets == predictions).any():
        row = int(reached.nonzero()[0])
        raise InputError(
            f"the classifier already predicts target {int(targets[row])} for image {row}: choose another target, "
            "or pass allow_reached=True to get such an image back as it is."
        )
    return images, targets


def _images(images: Any) -> Tensor:
    images = _tensor(images, "images")
    if images.ndim != 4:
        raise InputError(f"images must have shape (n, channels, height, width), not {tuple(images.shape)}.")
    return images.float().contiguous()


def _tensor(values: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(np.asarray(values) if not isinstance(values, Tensor) else values.detach().cpu())
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a tensor or an array ({error}).") from None


@torch.no_grad()
def _predictions(classifier: nn.Module, images: Tensor) -> tuple[Tensor, int]:
    """The predicted classes, (n,), and how many classes there are."""
    where = device_of(classifier)
    logits = torch.cat([classifier(some.to(where)).cpu() for some in images.split(100)])
    if logits.ndim != 2:
        raise InputError(f"the classifier must give logits of shape (n, classes), not {tuple(logits.shape)}.")
    return logits.argmax(1), logits.shape[1]
