"""The search engine: step all live rows, retire the finished ones, refill, until none is left.

A *row* is one pair of an image and a target. A method says how a row starts, what it descends and how it steps; the
engine does the rest, for any number of pairs in batches of bounded size. Rows never see each other, so that a pair's
counterfactual does not depend on what else is in its batch.
"""

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn
from tqdm import tqdm

from deduce import compute
from deduce.errors import InputError
from deduce.fold import device_of, fold, frozen
from deduce.inputs import check_functions, check_range, check_settings, image_tensor, tensor_of
from deduce.kernels import accelerate
from deduce.tracing import with_features


class Method(ABC):
    """What every counterfactual method is: a dataclass of hyper-parameters with one verb.

    `generate(classifier, …, images, targets, allow_reached=False, progress=False)` gives a `Result`. The dots stand for
    what the method `needs`: `densities`, a `generative_model`, an `autoencoder`, or `training` (images and labels).
    """

    name: ClassVar[str]  # as in the config
    display_name: ClassVar[str]  # as in the paper
    needs: ClassVar[tuple[str, ...]] = ()
    generate: Callable[..., "Result"]

    def __post_init__(self) -> None:
        check_settings(self)

    def prepare(self, images: Any, classifier: Any, **needed: Any) -> dict[str, Any]:
        """The arguments of `generate` that many calls can share: folded and on the classifier's device."""
        classifier = folded(classifier, images)
        for name, value in needed.items():
            if name == "confirming":
                needed[name] = folded_beside(value, classifier, images)
            elif hasattr(value, "decode"):
                needed[name] = frozen_beside(value, classifier)
            else:
                needed[name] = on_device(value, device_of(classifier))
        return {"classifier": classifier} | needed

    def settings(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]


@dataclass
class Models:
    """The models of a search, prepared once. Methods that need more than the classifier derive from this."""

    classifier: Any
    # Another classifier, without which no row is finished: it must predict the target too. None: no such condition.
    confirming: Any = field(default=None, kw_only=True)


@dataclass
class Rows:
    """The live rows; every tensor's first dimension is the row. Methods that store more per row derive from this."""

    index: Tensor  # in the caller's order
    image: Tensor  # the current counterfactual, in [0, 1]
    target: Tensor
    iterations: Tensor  # updates so far
    confidence: Tensor  # in the target, at `image`
    broken: Tensor  # bool: the loss is not finite

    def take(self, index: Tensor) -> Self:
        """The rows at these positions, (m,)."""
        return type(self)(**{name: tensor[index] for name, tensor in vars(self).items()})

    def joined(self, other: Self) -> Self:
        return type(self)(**{name: torch.cat([tensor, getattr(other, name)]) for name, tensor in vars(self).items()})


NOWHERE = -1  # the index of a row that has ended

M = TypeVar("M", bound=Models)
R = TypeVar("R", bound=Rows)
PixelChanges = tuple[Tensor, Tensor]
"""Flattened positions, (n, q), that a step changed, and the values, (n, q), that it set there."""


class Search(Method, Generic[M, R]):
    """A method that steps towards its target until the classifier is confident enough."""

    variable: ClassVar[str] = "image"  # which of the rows' tensors is searched
    changes_pixels: ClassVar[bool] = False  # whether steps change single pixels; if so, their path is recorded
    target_confidence: float  # γ
    max_iterations: int
    batch_size: int  # number of live rows; bounds the memory

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.target_confidence < 1:
            raise InputError(f"target_confidence is {self.target_confidence}; it must lie between 0 and 1.")

    @abstractmethod
    def start(self, models: M, rows: Rows) -> R:
        """Fresh rows, with the further tensors of this method."""

    @abstractmethod
    def evaluate(self, models: M, rows: R) -> tuple[Tensor, Tensor]:
        """The loss to descend, (n,), as a function of `rows.<variable>`; and the confidence in the target, (n,)."""

    @abstractmethod
    def step(self, rows: R, gradient: Tensor) -> PixelChanges | None:
        """Updates the rows in place by the gradient of their loss; returns the changes if it `changes_pixels`."""

    def succeeded(self, rows: R) -> Tensor:
        """Which rows, (n,) bool, hold a counterfactual in `image`."""
        return rows.confidence >= self.target_confidence

    def exhausted(self, rows: R) -> Tensor:
        """Which rows, (n,) bool, end now even if they hold no counterfactual."""
        return rows.iterations >= self.max_iterations


@dataclass
class Result:
    """One row per pair, in the caller's order, on the CPU; if nothing was `found`, the last state of the search."""

    counterfactual: Tensor  # (n, channels, height, width) float32 in [0, 1]
    found: Tensor  # (n,) bool
    confidence: Tensor  # (n,) float32: in the target, at the counterfactual
    iterations: Tensor  # (n,) int64: updates made; 0 where the target was reached from the start
    # The order of changes, for methods that change single pixels: row i has steps path_offset[i]:path_offset[i + 1].
    path_offset: Tensor | None = None  # (n + 1,) int64
    path_pixel: Tensor | None = None  # (steps,) int32: position in the flattened image
    path_value: Tensor | None = None  # (steps,) float32: its new value

    @classmethod
    def empty(cls, images: Tensor) -> Self:
        n = len(images)
        found, iterations = torch.zeros(n, dtype=torch.bool), torch.zeros(n, dtype=torch.int64)
        return cls(torch.empty_like(images), found, torch.zeros(n, dtype=torch.float32), iterations)


def search(
    method: Search[M, R], models: M, images: Any, targets: Any, allow_reached: bool = False, progress: bool = False
) -> Result:
    """Runs `method` on every pair. images: (n, channels, height, width) in [0, 1]; targets: (n,) integer."""
    images, targets = checked_pairs(models.classifier, images, targets, allow_reached)
    pixels, changed = images.shape[1:].numel(), getattr(method, "pixels_per_step", 1)
    if changed > pixels:
        raise InputError(f"pixels_per_step is {changed}, but the images have only {pixels} pixels.")
    # Sorted by target, because densities are fastest on few classes at a time.
    queue = torch.argsort(targets, stable=True)
    result, ended = Result.empty(images), None
    steps: list[tuple[Tensor, Tensor, Tensor]] = []
    # The host knows where each live row belongs. It waits for an accelerator at one place only: to see which rows end.
    place, queue = queue[: method.batch_size], queue[method.batch_size :]
    rows = _fresh(method, models, images, targets, place)
    state, iteration, every = None, 0, 1 if models.confirming is not None else compute.retire_every(rows.image.device)
    with progress_bar(method, len(images), progress) as bar:
        while len(place):
            # One forward and backward pass gives both the test of the confidence and the gradient of the step.
            gradient = gradient_of(method, models, rows)
            look, retired = iteration % every == 0, 0
            state = State.of(method, rows, state, kept=not look)
            if look:
                reached, over = torch.stack([state.reached, state.over]).cpu()
                _record(result, ended)  # what was on its way has arrived
                found = confirmed(models, rows, reached)
                done, ended = found | over, None
                if retired := int(done.sum()):
                    ended = Ended.of(state, done, place[done], found[done])
                    bar.update(retired)
                    live = compute.sent((~done).nonzero()[:, 0], rows.image.device)
                    rows, gradient, place = rows.take(live), gradient[live], place[~done]
                state = None
            if len(place):
                with torch.no_grad():
                    changes = method.step(rows, gradient)
                rows.iterations += 1
                if changes is not None:
                    index = rows.index if state is None else rows.index.masked_fill(state.ended, NOWHERE)
                    steps.append((index, *changes))
            if retired and len(queue):
                fresh, queue = queue[:retired], queue[retired:]
                rows, place = rows.joined(_fresh(method, models, images, targets, fresh)), torch.cat([place, fresh])
            iteration += 1
    compute.synchronise(rows.image.device)
    _record(result, ended)
    if method.changes_pixels:
        _record_paths(result, steps)
    return result


def progress_bar(method: Method, total: int, visible: bool) -> tqdm:
    """A bar on the terminal; in a log, a line twice a minute."""
    interval = 0.1 if sys.stderr.isatty() else 30
    return tqdm(total=total, desc=method.display_name, disable=not visible, mininterval=interval)


def _fresh(method: Search[M, R], models: M, images: Tensor, targets: Tensor, place: Tensor) -> R:
    """The pairs at these places, (n,), as rows at their start."""
    device = device_of(models.classifier)
    index, image, target = (compute.sent(tensor, device) for tensor in (place, images[place], targets[place]))
    zeros = torch.zeros(len(place), device=device)
    rows = Rows(index, image, target, iterations=zeros.long(), confidence=zeros, broken=zeros.bool())
    with torch.no_grad():
        return method.start(models, rows)


@dataclass
class State:
    """Which rows have ended, and what the result needs of them; every tensor's first dimension is the row.

    A row that ends goes on with the others until the host looks, because rows never see each other. What it does after
    its end is not kept.
    """

    reached: Tensor  # bool: the row has succeeded
    over: Tensor  # bool: it ends in any case
    image: Tensor
    confidence: Tensor
    iterations: Tensor

    @classmethod
    def of(cls, method: Search[M, R], rows: R, earlier: Self | None, kept: bool) -> Self:
        """The rows' state now, or the earlier one where they had ended. kept: to be safe from the next step."""
        over = rows.broken | method.exhausted(rows)
        now = cls(method.succeeded(rows) & ~rows.broken, over, rows.image, rows.confidence, rows.iterations)
        if earlier is None and not kept:
            return now
        earlier = earlier or now
        pairs = zip(vars(earlier).values(), vars(now).values(), strict=True)
        return cls(*(torch.where(_wide(earlier.ended, old), old, new) for old, new in pairs))

    @property
    def ended(self) -> Tensor:
        return self.reached | self.over


def _wide(mask: Tensor, tensor: Tensor) -> Tensor:
    return mask.view(-1, *[1] * (tensor.ndim - 1))


@dataclass
class Ended:
    """Rows on their way to the result; what comes from an accelerator can be read after the host has waited for it."""

    place: Tensor  # in the caller's order
    found: Tensor
    image: Tensor
    confidence: Tensor
    iterations: Tensor

    @classmethod
    def of(cls, state: State, done: Tensor, place: Tensor, found: Tensor) -> Self:
        """done: which rows, (n,) bool on the CPU."""
        chosen = compute.sent(done.nonzero()[:, 0], state.image.device)
        fields = (state.image.detach(), state.confidence, state.iterations)
        return cls(place, found, *(compute.fetched(tensor[chosen]) for tensor in fields))


def gradient_of(method: Search[M, R], models: M, rows: R) -> Tensor:
    """The gradient of each row's loss in its variable; sets `confidence` and `broken` of the rows."""
    # A leaf of its own: at the start, the variable may be the same tensor as the original, which is a constant.
    variable = getattr(rows, method.variable).detach().requires_grad_()
    setattr(rows, method.variable, variable)
    with compute.reduced_precision(variable.device):
        loss, confidence = method.evaluate(models, rows)
    try:
        (gradient,) = torch.autograd.grad(loss.sum(), variable)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"a model gives no gradient with respect to its input ({reason}).") from error
    setattr(rows, method.variable, variable.detach())
    # A row whose loss is not finite (say, because its latent vector diverged) ends as not found.
    rows.broken = ~(loss.detach().isfinite() & confidence.detach().isfinite())
    rows.confidence = confidence.detach().float().masked_fill(rows.broken, 0)
    return gradient


@torch.no_grad()
def confirmed(models: Models, rows: Rows, reached: Tensor) -> Tensor:
    """Which rows that `reached` their target, (n,) bool on the CPU, the confirming classifier puts into it too."""
    if models.confirming is None or not reached.any():
        return reached
    chosen = compute.sent(reached.nonzero()[:, 0], rows.image.device)
    agrees = models.confirming(rows.image[chosen]).argmax(1) == rows.target[chosen]
    return reached.masked_scatter(reached, agrees.cpu())


def _record(result: Result, ended: Ended | None) -> None:
    if ended is not None:
        result.counterfactual[ended.place] = ended.image.to(result.counterfactual.dtype)
        result.found[ended.place] = ended.found
        result.confidence[ended.place] = ended.confidence
        result.iterations[ended.place] = ended.iterations


def _record_paths(result: Result, steps: Sequence[tuple[Tensor, Tensor, Tensor]]) -> None:
    """Sorts the steps by pair; the steps of one pair keep their order. Those of rows that had ended are left out."""
    no_step = (torch.zeros(0, dtype=torch.int64), torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0, 1))
    index, pixel, value = (torch.cat(tensors).cpu() for tensors in zip(*(steps or [no_step]), strict=True))
    order = torch.argsort(index, stable=True)[int((index == NOWHERE).sum()) :]
    counts = torch.bincount(index[order], minlength=len(result.found)) * pixel.shape[1]
    result.path_offset = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    result.path_pixel = pixel[order].flatten().to(torch.int32)
    result.path_value = value[order].flatten()


def change_pixels(images: Tensor, pixels: Tensor, change: Tensor) -> Tensor:
    """Adds `change` (n, q) at flattened positions `pixels` (n, q), in place and clipped; returns the new values."""
    flat = images.flatten(1)  # a view, because the images are contiguous
    values = (flat.gather(1, pixels) + change).clamp_(0, 1)
    flat.scatter_(1, pixels, values)
    return values


def folded(classifier: nn.Module, images: Any, features: bool = False) -> nn.Module:
    """The classifier, folded and frozen for a search; with the functions `features` and `head` if these are needed."""
    shape = image_tensor(images).shape[1:]
    try:
        network = fold(classifier, shape)
        return with_features(network, shape) if features else network
    except InputError:
        raise
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"the classifier does not accept images of shape {tuple(shape)} ({reason}).") from error


def on_device(value: Any, device: torch.device) -> Any:
    """A tensor, a module or a tuple of them on a device. A module on another device is copied, not moved."""
    if isinstance(value, tuple):
        return tuple(on_device(item, device) for item in value)
    if isinstance(value, nn.Module) and any(tensor.device != device for tensor in value.state_dict().values()):
        value = copy.deepcopy(value)
    return value.to(device)


def folded_beside(other: nn.Module | None, classifier: nn.Module, images: Any) -> nn.Module | None:
    """A further classifier, folded and on the device of the one that is explained; None stays None."""
    return None if other is None else folded(on_device(other, device_of(classifier)), images)


def frozen_beside(model: Any, classifier: nn.Module) -> Any:
    """A model that a method uses besides the classifier, to encode and decode: frozen, fast, and on the same device."""
    if getattr(model, "is_folded", False):
        return model
    check_functions(model, "the model", "encode", "decode")
    model = frozen(on_device(model, device_of(classifier)))
    accelerate(model)
    model.is_folded = True
    return model


def checked_pairs(
    classifier: nn.Module, images: Any, targets: Any, allow_reached: bool = False
) -> tuple[Tensor, Tensor]:
    """Images and targets as CPU tensors, or an `InputError` that says what is wrong with them.

    A target that the classifier already predicts is an error, because nothing is left to explain. With
    `allow_reached` it is not: if the target has the required confidence, the image is its own counterfactual.
    """
    images, targets = image_tensor(images), tensor_of(targets, "targets")
    check_range(images)
    if targets.shape != images.shape[:1] or targets.is_floating_point() or targets.dtype == torch.bool:
        given = f"{targets.dtype} {tuple(targets.shape)}"
        raise InputError(f"targets must be one whole number per image, shape ({len(images)},), not {given}.")
    targets = targets.long()
    by_class = probabilities(classifier, images if not allow_reached else images[:1])
    if not by_class.isfinite().all():
        raise InputError("the classifier gives logits that are NaN or infinite.")
    if unknown := ((targets < 0) | (targets >= by_class.shape[1])).nonzero().flatten().tolist():
        row, last = unknown[0], by_class.shape[1] - 1
        raise InputError(f"target {int(targets[row])} of image {row} is outside 0..{last}.")
    if not allow_reached and (reached := (targets == by_class.argmax(1)).nonzero().flatten().tolist()):
        raise InputError(
            f"the classifier already predicts target {int(targets[reached[0]])} for image {reached[0]}: choose another "
            "target, or pass allow_reached=True to get such an image back as it is."
        )
    return images, targets


def distinct(images: Tensor) -> tuple[Tensor, Tensor]:
    """The images without repetitions, and the position among them of each image, (n,)."""
    if not len(images):
        return images, torch.zeros(0, dtype=torch.int64)
    once, position = images.flatten(1).unique(dim=0, return_inverse=True)
    return once.view(-1, *images.shape[1:]), position


@torch.no_grad()
def probabilities(classifier: nn.Module, images: Tensor) -> Tensor:
    """The probability of each class, (n, classes), on the CPU, for any number of images on any device."""
    device = device_of(classifier)
    logits = torch.cat([classifier(block.to(device)).cpu() for block in images.split(100)])
    if logits.ndim != 2 or len(logits) != len(images):
        expected = f"({len(images)}, classes)"
        raise InputError(f"the classifier must give logits of shape {expected}, not {tuple(logits.shape)}.")
    if (
        len(logits)
        and (logits >= 0).all()
        and torch.allclose(logits.double().sum(1), torch.ones(1).double(), atol=1e-4)
    ):
        raise InputError("the classifier gives probabilities, but logits are needed: leave its last softmax out.")
    return logits.softmax(1)
