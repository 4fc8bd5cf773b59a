"""The contract between methods and everything after them: pair files in, shards out (see docs/contract.md).

A *pair* is one image and one target class. A pair file lists the pairs of one job; a shard holds the job's
answer, row for row. Both are `.npz` files without pickles, so that any language can read and write them.
Only numpy is needed here: tables are made from shards on machines that have no torch.
"""

import json
import zipfile
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from deduce.artifacts import atomic
from deduce.errors import InputError

TOLERANCE = 1e-6  # of float32 arithmetic, on pixel ranges and confidences


class ContractError(InputError):
    """A file that breaks the contract; the message names the file and what is wrong with it."""


@dataclass
class _Arrays:
    """Named arrays that are saved to one `.npz` and read back without pickles."""

    def save(self, path: str | Path) -> None:
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        if "metadata" in arrays:
            arrays["metadata"] = np.array(json.dumps(arrays["metadata"], sort_keys=True))
        with atomic(path) as temporary:
            np.savez_compressed(temporary, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads and checks; every way in which a file can be broken ends in a `ContractError` that names it."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except FileNotFoundError:
            raise ContractError(f"{path}: no such file") from None
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError) as error:
            raise ContractError(f"{path}: not a readable .npz without pickles ({error})") from error
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(arrays) - known):
            raise ContractError(f"{path}: unknown array {unknown[0]!r}; allowed: {', '.join(sorted(known))}")
        if "metadata" in arrays:
            try:
                arrays["metadata"] = json.loads(str(arrays["metadata"]))
            except json.JSONDecodeError as error:
                raise ContractError(f"{path}: 'metadata' is not JSON ({error})") from error
        try:
            loaded = cls(**arrays)
        except TypeError as error:
            raise ContractError(f"{path}: {str(error).split('() ')[-1]}") from None
        loaded.check(str(path))
        return loaded

    def check(self, where: str) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.image)  # type: ignore[attr-defined]


@dataclass
class Pairs(_Arrays):
    """What a method is asked: one row per (image, target)."""

    image: np.ndarray  # (n,) integer: index in the dataset's split
    label: np.ndarray  # (n,) integer: the dataset's label
    target: np.ndarray  # (n,) integer: the class wanted
    original: np.ndarray  # (n, channels, height, width) float32 in [0, 1]
    classes: np.ndarray  # () integer: how many classes there are

    def check(self, where: str) -> None:
        _check_rows(self, where, images="original")
        wrong = (self.target < 0) | (self.target >= self.classes)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ContractError(f"{where}: row {row} has target {self.target[row]}, outside 0..{self.classes - 1}")

    def rows(self, index: Any) -> "Pairs":
        return Pairs(self.image[index], self.label[index], self.target[index], self.original[index], self.classes)


@dataclass
class Shard(_Arrays):
    """What a method answers: one row per pair, in the order of the pair file.

    `found` says whether the search reached its target. Where it did not, `counterfactual` is the state in
    which the search ended: a real image, never a stand-in that has to be recognised later.
    """

    image: np.ndarray  # (n,) as asked
    label: np.ndarray  # (n,) as asked
    target: np.ndarray  # (n,) as asked
    counterfactual: np.ndarray  # (n, channels, height, width) float32 in [0, 1]
    found: np.ndarray  # (n,) bool
    confidence: np.ndarray  # (n,) float32: the classifier's probability of the target, at the counterfactual
    iterations: np.ndarray  # (n,) integer: updates made
    metadata: dict[str, Any] = field(default_factory=dict)  # method, settings, target_confidence, versions, source
    confidence_before: np.ndarray | None = None  # (n,) float32, optional: the same at the original
    # Optional: what changed when. Row i's steps are path_offset[i]:path_offset[i + 1]; each sets one flattened
    # pixel to a value, so that replaying them on the original ends in the counterfactual.
    path_offset: np.ndarray | None = None  # (n + 1,) integer
    path_pixel: np.ndarray | None = None  # (steps,) integer
    path_value: np.ndarray | None = None  # (steps,) float32

    def check(self, where: str) -> None:
        _check_rows(self, where, images="counterfactual")
        n = len(self)
        for name, kind in (("found", "b"), ("confidence", "f"), ("iterations", "iu")):
            array = getattr(self, name)
            if array.shape != (n,) or array.dtype.kind not in kind:
                wanted = {"b": "bool", "f": "float", "iu": "integer"}[kind]
                raise ContractError(
                    f"{where}: {name!r} must be {wanted} of shape ({n},), is {array.dtype} {array.shape}"
                )
        if "method" not in self.metadata:
            raise ContractError(f"{where}: metadata must name its 'method'")
        if self.confidence_before is not None:
            before = self.confidence_before
            if before.shape != (n,) or before.dtype.kind != "f":
                raise ContractError(
                    f"{where}: 'confidence_before' must be float of shape ({n},), is {before.dtype} {before.shape}"
                )
            _first_bad(where, "confidence_before", ~((before >= -TOLERANCE) & (before <= 1 + TOLERANCE)), self)
        _first_bad(where, "iterations", self.iterations < 0, self)
        self._check_paths(where)
        if "confidence" not in self.unknown:
            self._check_confidence(where)

    @property
    def unknown(self) -> list[str]:
        """The columns that were not recorded; only imported results, marked `as_published`, may lack any."""
        return self.metadata.get("unknown", []) if self.metadata.get("as_published") else []

    def _check_confidence(self, where: str) -> None:
        _first_bad(where, "confidence", ~((self.confidence >= -TOLERANCE) & (self.confidence <= 1 + TOLERANCE)), self)
        # A method that cannot prescribe a confidence (target_confidence null) has at least made the target the
        # largest of the classes' probabilities.
        threshold = self.metadata.get("target_confidence")
        least = 1 / self.metadata.get("classes", np.inf) if threshold is None else threshold
        _first_bad(where, "found", self.found & (self.confidence < least - TOLERANCE), self)
        if threshold is not None:
            _first_bad(where, "found", ~self.found & (self.confidence >= threshold + TOLERANCE), self)

    def _check_paths(self, where: str) -> None:
        if self.path_offset is None and self.path_pixel is None and self.path_value is None:
            return
        if self.path_offset is None or self.path_pixel is None or self.path_value is None:
            raise ContractError(f"{where}: 'path_offset', 'path_pixel' and 'path_value' come together or not at all")
        steps, pixels = len(self.path_pixel), int(np.prod(self.counterfactual.shape[1:]))
        fits = (
            self.path_offset.shape == (len(self) + 1,)
            and len(self.path_value) == steps
            and self.path_offset[0] == 0
            and self.path_offset[-1] == steps
            and bool((np.diff(self.path_offset) >= 0).all())
            and (steps == 0 or (self.path_pixel.min() >= 0 and self.path_pixel.max() < pixels))
        )
        if not fits:
            raise ContractError(f"{where}: 'path_offset', 'path_pixel' and 'path_value' do not fit together")

    def answers(self, pairs: Pairs, where: str) -> None:
        """Fails unless this shard answers exactly these pairs, row for row, in images of the same shape."""
        if len(self) != len(pairs):
            raise ContractError(f"{where}: has {len(self)} rows, was asked {len(pairs)} pairs")
        for name in ("image", "label", "target"):
            differs = getattr(self, name) != getattr(pairs, name)
            if differs.any():
                row = int(np.flatnonzero(differs)[0])
                asked, given = getattr(pairs, name)[row], getattr(self, name)[row]
                raise ContractError(f"{where}: row {row} has {name} {given}, was asked {asked}")
        if self.counterfactual.shape != pairs.original.shape:
            raise ContractError(
                f"{where}: images of shape {self.counterfactual.shape[1:]}, was asked {pairs.original.shape[1:]}"
            )


@dataclass
class Scores(_Arrays):
    """Realism of the images of a shard, row for row; lower is more realistic, but for `log_density`."""

    image: np.ndarray  # (n,) as in the shard
    target: np.ndarray  # (n,) as in the shard; the label, for originals and reconstructions
    agan: np.ndarray  # (n,) float: AnoGAN score (equation 7)
    im1: np.ndarray | None = None  # (n,) float: beyond the paper
    im2: np.ndarray | None = None  # (n,) float: beyond the paper
    log_density: np.ndarray | None = None  # (n,) float: of the target class, in the classifier's features
    metadata: dict[str, Any] = field(default_factory=dict)

    def check(self, where: str) -> None:
        n = len(self)
        for name in ("image", "target", "agan", "im1", "im2", "log_density"):
            array = getattr(self, name)
            if array is not None and array.shape != (n,):
                raise ContractError(f"{where}: {name!r} must have shape ({n},), has {array.shape}")

    def scores(self, rows: Pairs | Shard, where: str) -> None:
        """Fails unless these are the scores of exactly those rows."""
        if len(self) != len(rows) or (self.image != rows.image).any() or (self.target != rows.target).any():
            raise ContractError(f"{where}: these are the scores of other images than its shard's")


def _check_rows(table: Any, where: str, images: str) -> None:
    n = len(table.image)
    for name in ("image", "label", "target"):
        array = getattr(table, name)
        if array.shape != (n,) or array.dtype.kind not in "iu":
            raise ContractError(f"{where}: {name!r} must be integer of shape ({n},), is {array.dtype} {array.shape}")
    pixels = getattr(table, images)
    if pixels.ndim != 4 or len(pixels) != n or pixels.dtype != np.float32:
        raise ContractError(
            f"{where}: {images!r} must be float32 of shape ({n}, channels, height, width), "
            f"is {pixels.dtype} {pixels.shape}"
        )
    # Imported results are kept as they were published, whatever their range: the audit says which rows are unsound.
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
    first = shards[0]
    if any(shard.metadata != first.metadata for shard in shards):
        raise ContractError("the parts of one shard were made with different settings, versions or source")
    row = {
        (image, target): (part, i)
        for part, shard in enumerate(shards)
        for i, (image, target) in enumerate(zip(shard.image, shard.target, strict=True))
    }
    order = [row[pair] for pair in zip(pairs.image, pairs.target, strict=True)]
    per_row = ["image", "label", "target", "counterfactual", "found", "confidence", "iterations"]
    if all(shard.confidence_before is not None for shard in shards):
        per_row.append("confidence_before")
    arrays = {name: np.stack([getattr(shards[part], name)[i] for part, i in order]) for name in per_row}
    offsets = [shard.path_offset for shard in shards if shard.path_offset is not None]
    if offsets:
        steps = [slice(*offsets[part][i : i + 2]) for part, i in order]
        for name in ("path_pixel", "path_value"):
            taken = [getattr(shards[part], name)[step] for (part, _), step in zip(order, steps, strict=True)]
            arrays[name] = np.concatenate(taken)
        lengths = [step.stop - step.start for step in steps]
        arrays["path_offset"] = np.cumsum([0, *lengths]).astype(offsets[0].dtype)
    return Shard(**arrays, metadata=first.metadata)
