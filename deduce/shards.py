"""The contract between methods and everything after them: pair files in, shards out (see docs/contract.md).

A *pair* is one image and one target class. A pair file lists the pairs of one job; a shard holds the job's
answer, row for row. Both are `.npz` files without pickles, so that any language can read and write them.
Only numpy is needed here: tables are made from shards on machines that have no torch.
"""

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from deduce.artifacts import load_arrays, save_arrays
from deduce.errors import InputError

TOLERANCE = 1e-6  # of float32 arithmetic, on pixel ranges and confidences
OPTIONAL = ("confidence_before", "seconds")  # columns of a shard that a method may leave out
# The type of each column, and the largest value of the columns that cannot be negative.
TYPES = {"image": "integer", "label": "integer", "target": "integer", "iterations": "integer", "found": "bool"}
TYPES |= {"confidence": "float", "confidence_before": "float", "seconds": "float"}
LARGEST = {"confidence": 1, "confidence_before": 1, "seconds": np.inf, "iterations": np.inf}


# The types of what is used of the metadata; any of it may be missing but the method.
METADATA: dict[str, Any] = {"method": str, "display_name": str, "settings": dict, "models": dict, "machine": str}
METADATA |= {"target_confidence": int | float, "classes": int, "unknown": list}


class ContractError(InputError):
    """A file that breaks the contract; the message names the file and what is wrong with it."""


@dataclass
class _Arrays(ABC):
    """Named arrays that are stored in one `.npz` without pickles."""

    def save(self, path: str | Path) -> None:
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        arrays |= arrays.pop("values", {})  # named columns are stored beside the other arrays
        if "metadata" in arrays:
            arrays["metadata"] = np.array(json.dumps(arrays["metadata"], sort_keys=True))
        save_arrays(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and check a file; a file that is broken in any way raises a `ContractError` that names the file."""
        try:
            arrays: dict[str, Any] = load_arrays(path)
            if "metadata" in arrays:
                arrays["metadata"] = _metadata(arrays["metadata"])
        except InputError as error:
            raise ContractError(str(error)) from error
        except (ValueError, RecursionError) as error:
            raise ContractError(f"{path}: 'metadata' is not JSON ({error})") from error
        known = {f.name for f in fields(cls)}
        if "values" not in known and (unknown := sorted(set(arrays) - known)):
            raise ContractError(f"{path}: unknown array {unknown[0]!r}; allowed: {', '.join(sorted(known))}")
        try:
            loaded = cls(**arrays)
        except TypeError as error:
            raise ContractError(f"{path}: {str(error).split('() ')[-1]}") from None
        try:
            loaded.check(str(path))
        except ContractError:
            raise
        except Exception as error:  # arrays of the wrong type or shape can break a check in any way
            raise ContractError(f"{path}: its arrays do not fit together ({error})") from error
        return loaded

    @abstractmethod
    def check(self, where: str) -> None:
        """Raise a `ContractError` that names the file if an array breaks the contract."""

    def __len__(self) -> int:
        return len(self.image)  # type: ignore[attr-defined]


@dataclass
class Pairs(_Arrays):
    """The question to a method: one row per (image, target)."""

    image: np.ndarray  # (n,) integer: index in the dataset's split
    label: np.ndarray  # (n,) integer: the dataset's label
    target: np.ndarray  # (n,) integer: the class that the counterfactual should have
    original: np.ndarray  # (n, channels, height, width) float32 in [0, 1]
    classes: np.ndarray  # () integer: how many classes there are

    def check(self, where: str) -> None:
        _check_rows(self, where, images="original")
        if self.classes.shape != () or self.classes.dtype.kind not in "iu" or self.classes < 1:
            raise ContractError(f"{where}: 'classes' must be one whole number above 0")
        for name in ("label", "target"):
            outside = (getattr(self, name) < 0) | (getattr(self, name) >= self.classes)
            _first_bad(where, name, outside, self, f"is outside 0..{self.classes - 1}")

    def rows(self, index: Any) -> "Pairs":
        return Pairs(self.image[index], self.label[index], self.target[index], self.original[index], self.classes)


@dataclass
class Shard(_Arrays):
    """The answer of a method: one row per pair, in the order of the pair file.

    `found` says whether the search reached its target. If it did not, `counterfactual` is the image in which the search
    ended, never a placeholder that has to be recognised later.
    """

    image: np.ndarray  # (n,) as in the pair file
    label: np.ndarray  # (n,) as in the pair file
    target: np.ndarray  # (n,) as in the pair file
    counterfactual: np.ndarray  # (n, channels, height, width) float32 in [0, 1]
    found: np.ndarray  # (n,) bool
    confidence: np.ndarray  # (n,) float32: the classifier's probability of the target, at the counterfactual
    iterations: np.ndarray  # (n,) integer: updates made
    metadata: dict[str, Any] = field(default_factory=dict)  # method, settings, target_confidence, versions, source
    confidence_before: np.ndarray | None = None  # (n,) float32, optional: the same at the original
    seconds: np.ndarray | None = None  # (n,) float64, optional: how long the row's search took
    # Optional: the order of changes. Row i's steps are path_offset[i]:path_offset[i + 1]. Each step sets one flattened
    # pixel to a value; all steps together turn the original into the counterfactual.
    path_offset: np.ndarray | None = None  # (n + 1,) integer
    path_pixel: np.ndarray | None = None  # (steps,) integer
    path_value: np.ndarray | None = None  # (steps,) float32

    def check(self, where: str) -> None:
        for name, types in METADATA.items():
            if not isinstance(value := self.metadata.get(name), types | None):
                raise ContractError(f"{where}: metadata has {str(value)[:100]!r} as {name!r}")
        _check_rows(self, where, images="counterfactual")
        if "method" not in self.metadata:
            raise ContractError(f"{where}: metadata must name its 'method'")
        for name, largest in LARGEST.items():
            if (array := getattr(self, name)) is not None and name not in self.unknown:
                _first_bad(
                    where, name, ~((array >= -TOLERANCE) & (array <= largest + TOLERANCE) & np.isfinite(array)), self
                )
        self._check_paths(where)
        if "confidence" not in self.unknown:
            self._check_found(where)

    @property
    def unknown(self) -> list[str]:
        """The columns that were not recorded; only imported results, marked `as_published`, may lack any."""
        return self.metadata.get("unknown", []) if self.metadata.get("as_published") else []

    def _check_found(self, where: str) -> None:
        # A method without a prescribed confidence (target_confidence null) finds a counterfactual if the target has
        # the largest probability of all classes.
        threshold = self.metadata.get("target_confidence")
        least = 1 / self.metadata.get("classes", np.inf) if threshold is None else threshold
        _first_bad(where, "found", self.found & (self.confidence < least - TOLERANCE), self)
        # With a classifier that confirms, a search can miss its end in spite of the confidence.
        if threshold is not None and "confirming" not in self.metadata.get("models", {}):
            _first_bad(where, "found", ~self.found & (self.confidence >= threshold + TOLERANCE), self)

    def _check_paths(self, where: str) -> None:
        if self.path_offset is None or self.path_pixel is None or self.path_value is None:
            if self.path_offset is self.path_pixel is self.path_value is None:
                return
            raise ContractError(f"{where}: 'path_offset', 'path_pixel' and 'path_value' come together or not at all")
        steps, pixels = self.path_pixel.size, int(np.prod(self.counterfactual.shape[1:]))
        kinds = self.path_offset.dtype.kind + self.path_pixel.dtype.kind + self.path_value.dtype.kind
        fits = (
            self.path_offset.shape == (len(self) + 1,)
            and self.path_pixel.shape == self.path_value.shape == (steps,)
            and set(kinds[:2]) <= {"i", "u"}
            and kinds[2] == "f"
            and bool(((self.path_value >= 0) & (self.path_value <= 1)).all())
            and self.path_offset[0] == 0
            and self.path_offset[-1] == steps
            and bool((np.diff(self.path_offset) >= 0).all())
            and (steps == 0 or (self.path_pixel.min() >= 0 and self.path_pixel.max() < pixels))
        )
        if not fits:
            raise ContractError(f"{where}: 'path_offset', 'path_pixel' and 'path_value' do not fit together")

    def answers(self, pairs: Pairs, where: str) -> None:
        """Fail unless this shard answers exactly these pairs, row for row, in images of the same shape."""
        if len(self) != len(pairs):
            raise ContractError(f"{where}: has {len(self)} rows, was asked {len(pairs)} pairs")
        for name in ("image", "label", "target"):
            answers, questions = getattr(self, name), getattr(pairs, name)
            if (answers != questions).any():
                row = int(np.flatnonzero(answers != questions)[0])
                raise ContractError(f"{where}: row {row} has {name} {answers[row]}, was asked {questions[row]}")
        shape, expected = self.counterfactual.shape[1:], pairs.original.shape[1:]
        if shape != expected:
            raise ContractError(f"{where}: images of shape {shape}, was asked {expected}")


@dataclass(init=False)
class Scores(_Arrays):
    """Realism of the images of a shard, row for row: a column of floats for each metric, NaN where there is no score.

    The columns are named as in deduce/evaluation/metrics.py and stored beside the other arrays.
    """

    image: np.ndarray  # (n,) as in the shard
    target: np.ndarray  # (n,) as in the shard; the label, for originals and reconstructions
    values: dict[str, np.ndarray]  # (n,) float each, by the name of the metric
    metadata: dict[str, Any]

    def __init__(
        self, image: np.ndarray, target: np.ndarray, *, metadata: dict[str, Any] | None = None, **values: np.ndarray
    ) -> None:
        self.image, self.target, self.values, self.metadata = image, target, values, metadata or {}

    def check(self, where: str) -> None:
        _check_columns(where, len(self), {"image": self.image, "target": self.target} | self.values)
        for name, values in self.values.items():
            if np.isinf(values).any():
                raise ContractError(f"{where}: {name!r} is infinite in row {int(np.flatnonzero(np.isinf(values))[0])}")

    def scores(self, rows: Pairs | Shard, where: str) -> None:
        """Fail unless these are the scores of exactly these rows."""
        if len(self) != len(rows) or (self.image != rows.image).any() or (self.target != rows.target).any():
            raise ContractError(f"{where}: these are the scores of other images than the shard's")


def _metadata(array: np.ndarray) -> dict[str, Any]:
    """The metadata in an array of one text; a `ValueError` if it is anything but a JSON object of finite numbers."""
    if array.shape != () or array.dtype.kind != "U":
        raise ValueError("not a text")

    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise ValueError(f"it contains {number}")
        return value

    metadata = json.loads(str(array), parse_constant=finite, parse_float=finite)
    if not isinstance(metadata, dict):
        raise ValueError("not an object")
    return metadata


def _check_columns(where: str, n: int, columns: dict[str, np.ndarray]) -> None:
    for name, array in columns.items():
        expected = TYPES.get(name, "float")
        if array.shape != (n,) or array.dtype.kind not in {"bool": "b", "float": "f", "integer": "iu"}[expected]:
            raise ContractError(f"{where}: {name!r} must be {expected} of shape ({n},), is {array.dtype} {array.shape}")


def _check_rows(table: Any, where: str, images: str) -> None:
    n, pixels = len(table.image), getattr(table, images)
    _check_columns(where, n, {name: getattr(table, name) for name in TYPES if getattr(table, name, None) is not None})
    if pixels.ndim != 4 or len(pixels) != n or pixels.dtype != np.float32 or 0 in pixels.shape[1:]:
        expected = f"float32 of shape ({n}, channels, height, width)"
        raise ContractError(f"{where}: {images!r} must be {expected}, is {pixels.dtype} {pixels.shape}")
    # Imported results keep values outside the range; the audit lists the rows that have them.
    lenient = getattr(table, "metadata", {}).get("as_published")
    inside = np.isfinite(pixels) if lenient else (pixels >= 0) & (pixels <= 1)  # false for NaN too
    _first_bad(where, images, ~inside.all((1, 2, 3)), table, "has values outside [0, 1] or NaN")


def _first_bad(where: str, name: str, bad: np.ndarray, table: Any, what: str = "") -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        detail = what or f"is {getattr(table, name)[row]}"
        if name == "found":
            detail += f" but confidence is {table.confidence[row]:.4f}"
        raise ContractError(
            f"{where}: row {row} (image {table.image[row]}, target {table.target[row]}): {name!r} {detail}"
            f" ({int(bad.sum())} such rows)"
        )


def merge(shards: list[Shard], pairs: Pairs) -> Shard:
    """The parts of one test set as one shard, in the order of `pairs`: the same file however the work was split."""
    metadata = shards[0].metadata
    if any(shard.metadata != metadata for shard in shards):
        raise ContractError("the parts of one shard were made with different settings, versions or source")
    shards = [shard for shard in shards if len(shard)]  # a part without rows has no optional arrays
    for name in (*OPTIONAL, "path_offset"):
        present = {getattr(shard, name) is not None for shard in shards}
        if len(present) > 1:
            raise ContractError(f"some parts of one shard have {name!r} and others do not")
    names = ["counterfactual", *(name for name in TYPES if getattr(shards[0], name) is not None)]
    whole = {name: np.concatenate([getattr(shard, name) for shard in shards]) for name in names}
    rows = {pair: row for row, pair in enumerate(zip(whole["image"], whole["target"], strict=True))}
    order = [rows[pair] for pair in zip(pairs.image, pairs.target, strict=True)]
    arrays = {name: array[order] for name, array in whole.items()}
    if shards[0].path_offset is not None:
        lengths = np.concatenate([np.diff(shard.path_offset) for shard in shards])  # type: ignore[type-var]
        for name in ("path_pixel", "path_value"):
            steps = np.split(np.concatenate([getattr(shard, name) for shard in shards]), np.cumsum(lengths)[:-1])
            arrays[name] = np.concatenate([steps[row] for row in order])
        arrays["path_offset"] = np.cumsum([0, *lengths[order]]).astype(np.int64)
    return Shard(**arrays, metadata=metadata)
