"""What a caller of the library may give: converted where the meaning is clear, one sentence where it is not."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
from torch import Tensor, nn

from deduce.errors import InputError

# Hyper-parameters with limits of their own; any other number is at least 0, and a whole number at least 1.
POSITIVE = {"step_size", "learning_rate", "gradient_clip", "initial_loss_weight", "norm"}
MAY_BE_ZERO = {"max_iterations"}
AT_MOST = {"target_confidence": 1, "momentum": 1, "confidence_margin": 1}
MOST = 10**9  # of any whole number


def check_settings(method: Any) -> None:
    """An `InputError` unless every hyper-parameter of a dataclass is of its type and within its limits."""
    for field in fields(method):
        name, kind = field.name, field.type
        value: Any = getattr(method, name)
        given = f"{name} is {value!r}; it must be "
        if get_origin(kind) is Literal:
            if value not in get_args(kind):
                raise InputError(given + f"one of {', '.join(map(repr, get_args(kind)))}.")
        elif kind is bool:
            if not isinstance(value, bool | np.bool_):
                raise InputError(given + "True or False.")
        elif kind is int:
            least = 0 if name in MAY_BE_ZERO else 1
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise InputError(given + "a whole number.")
            if not least <= value <= MOST:
                raise InputError(given + (f"at least {least}." if value < least else f"at most {MOST:,}."))
        elif kind is float:
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
                raise InputError(given + "a finite number.")
            if value < 0 or (value == 0 and name in POSITIVE):
                raise InputError(given + ("more than 0." if name in POSITIVE else "at least 0."))
            if value > AT_MOST.get(name, math.inf):
                raise InputError(given + f"at most {AT_MOST[name]}.")


def tensor_of(values: Any, name: str) -> Tensor:
    try:
        if isinstance(values, Tensor):
            return (values if values.layout == torch.strided else values.to_dense()).detach().cpu()
        return torch.as_tensor(np.asarray(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a tensor or an array ({error}).") from None


def image_tensor(images: Any, name: str = "images") -> Tensor:
    """Images (n, channels, height, width) in float32 on the CPU. Bytes, 0 to 255, become values in [0, 1]."""
    images = tensor_of(images, name)
    if images.ndim != 4:
        raise InputError(f"{name} must have shape (n, channels, height, width), not {tuple(images.shape)}.")
    if images.is_complex():
        raise InputError(f"{name} must be real numbers, not {images.dtype}.")
    if images.dtype == torch.uint8 and images.numel():
        if images.amax() == 1:
            raise InputError(f"{name} are bytes 0 and 1, which could mean two things; pass them as floats in [0, 1].")
        return images.float().div(255).contiguous()
    return images.float().contiguous()


def class_labels(labels: Any, count: int, name: str = "labels") -> Tensor:
    """Labels (count,) as whole numbers; rows of one-hot labels become the class of each row."""
    labels = tensor_of(labels, name)
    if labels.ndim == 2 and len(labels) == count:
        if not (((labels == 0) | (labels == 1)).all() and (labels.sum(1) == 1).all()):
            raise InputError(f"{name} of shape {tuple(labels.shape)} must be one-hot: a single 1 in each row.")
        return labels.argmax(1)
    if labels.shape != (count,):
        raise InputError(f"{count} images came with {name} of shape {tuple(labels.shape)}, not ({count},).")
    if labels.is_complex() or labels.dtype == torch.bool or not torch.equal(labels, labels.round()):
        raise InputError(f"{name} must be whole numbers, not {labels.dtype}.")
    return labels.long()


def training_data(training: Any) -> tuple[Tensor, Tensor]:
    """Training images (n, channels, height, width) in float32 and their labels (n,), from a pair of any arrays."""
    if isinstance(training, Tensor | np.ndarray) or not isinstance(training, Sequence) or len(training) != 2:
        raise InputError("training data must be a pair: images and their labels.")
    images, labels = training
    if not (isinstance(images, Tensor) and images.dtype == torch.float32 and images.ndim == 4):
        images = image_tensor(images, "training images")
    if not (isinstance(labels, Tensor) and labels.dtype == torch.int64 and labels.shape == images.shape[:1]):
        labels = class_labels(labels, len(images), "training labels")
    return images, labels


def check_range(images: Tensor, name: str = "image") -> None:
    inside = ((images >= 0) & (images <= 1)).flatten(1).all(1)  # false for NaN too
    if outside := (~inside).nonzero().flatten().tolist():
        raise InputError(f"{name} {outside[0]} has values outside [0, 1] or NaN; pixels must lie between 0 and 1.")


def check_functions(model: Any, name: str, *functions: str) -> None:
    """An `InputError` unless a model has these functions."""
    for function in functions:
        if not callable(getattr(model, function, None)):
            raise InputError(f"{name} ({type(model).__name__}) has no function {function!r}, which this method needs.")


@torch.no_grad()
def check_densities(densities: Any, features: Tensor, classes: int) -> None:
    """An `InputError` unless `densities` give a finite log p(features | class) for every class; features: (1, d)."""
    check_functions(densities, "densities", "log_density")
    if not len(features):
        return
    try:
        logs = densities.log_density(features.expand(classes, -1), torch.arange(classes, device=features.device))
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        what = f"{features.shape[1]} features and {classes} classes"
        raise InputError(f"the densities do not fit a classifier with {what} ({reason}).") from error
    if not isinstance(logs, Tensor) or logs.shape != (classes,) or not logs.isfinite().all():
        raise InputError("the densities must give one finite log-density per image.")


def copied(network: nn.Module, copy: Any) -> nn.Module:
    """`copy(network)`, or an `InputError` if the network cannot be copied."""
    try:
        return copy(network)
    except (TypeError, RuntimeError, AttributeError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"the model ({type(network).__name__}) cannot be copied for a search ({reason}).") from error
