"""The authors' tuning of DeDUCE on a validation batch, from the folder `valset_batch` of a clone of their repository.

For each setting there are the images for 100 originals x 10 classes (`arr_vbatch_NAME.pt`) and the iteration counts
(`iter_vbatch_NAME.pt`). A name says the setting: c, the spectral coefficient; m, tenths of momentum; CL, λ of equation
4, or cl, μ of equation 5, and neither for λ = 0; p, the pixels per step if not one.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deduce.errors import InputError
from deduce.evaluation.published import CLASSES, IMAGES, METHODS, SIDE, asked_pairs, read_tensor
from deduce.shards import Pairs, Shard
from deduce.sweeps import VALIDATION, Sweep

METHOD = "deduce"
FILE = re.compile(r"arr_vbatch_(c(\d+)m(\d)(?:(CL|cl)([\d.e+]+))?(?:p(\d))?(\(1\))?(?:p(\d))?)\.pt")


class Setting(NamedTuple):
    """What the authors varied."""

    coefficient: float
    momentum: float
    objective: str
    cross_entropy_weight: float
    pixels_per_step: int


def sweeps(clone: str | Path) -> dict[str, Any]:
    """Appendix A and what the authors ran beside it, as a config declares sweeps; none without the folder."""
    if not folder(clone).is_dir():
        return {}
    common = {"momentum": 0, "objective": "relative", "cross_entropy_weight": 1, "pixels_per_step": 1}
    both = {
        "method": METHOD,
        "on": [VALIDATION],
        "settings": common | {"ddu.coefficient": 4},
        # The mask that gives the paper's figures: the pairs that all 24 settings of the tuning found.
        "compare_on": ["appendix_a", "appendix_a_more"],
    }
    weighted = {f"λ = {weight}": _objective("weighted", weight) for weight in (0, *(10**power for power in range(6)))}
    relative = {f"μ = {weight:g}": _objective("relative", weight) for weight in (0.2, 1, 5)}
    more: dict[str, dict[str, Any]] = {"c = 4, 1 pixel, momentum 0": {}}
    more |= {f"c = {value}": {"ddu.coefficient": value} for value in (2, 3, 5)}
    more |= {f"{value} pixels": {"pixels_per_step": value} for value in (2, 3)}
    more |= {f"momentum {tenth / 10}": {"momentum": tenth / 10} for tenth in range(1, 10)}
    description = "the authors' stored results on their validation batch."
    return {
        "appendix_a": both
        | {
            "description": f"Appendix A, {description}",
            "vary": {"objective": weighted | relative},
            "reference": "μ = 1",
        },
        "appendix_a_more": both | {"description": f"Beside appendix A, {description}", "vary": {"setting": more}},
    }


def folder(clone: str | Path) -> Path:
    return Path(clone) / "valset_batch"


def files(clone: str | Path) -> dict[Setting, str]:
    """The name of each stored setting. A repeated run, `(1)`, counts before the first: it is the one in the table."""
    names: dict[Setting, str] = {}
    for path in sorted(folder(clone).glob("arr_vbatch_*.pt"), key=lambda path: "(1)" in path.name):
        if match := FILE.fullmatch(path.name):
            name, coefficient, momentum, kind, weight, pixels, _, after = match.groups()
            pixels = pixels or after
            if kind is None:  # with several pixels the objective goes without saying: it is the published one
                objective, value = ("relative", 1.0) if pixels else ("weighted", 0.0)
            else:
                objective, value = "weighted" if kind == "CL" else "relative", float(weight)
            setting = Setting(float(coefficient), int(momentum) / 10, objective, value, int(pixels or 1))
            names[setting] = name
    return names


def import_validation(clone: str | Path, sweeps: list[Sweep]) -> tuple[Pairs, dict[str, Shard]]:
    """The batch's 900 pairs, and the shard of each variant of the sweeps. Images are numbered within the batch."""
    place = folder(clone)
    images = read_tensor(place / f"orig_batch_{IMAGES}v_X.pt").reshape(IMAGES, 1, SIDE, SIDE).astype(np.float32)
    labels = read_tensor(place / f"orig_batch_{IMAGES}v_y.pt", (IMAGES,)).astype(np.int64)
    pairs, asked = asked_pairs(images, labels, first=0)
    names = files(clone)
    shards = {}
    for point in (point for sweep in sweeps for point in sweep.points):
        own = {key: value for key, value in point.settings.items() if "." not in key}
        setting = Setting(coefficient=float(point.settings["ddu.coefficient"]), **own)
        if setting not in names:
            raise InputError(f"{place}: has no file arr_vbatch_… of '{point.label}'")
        shards[point.variant] = _shard(place, names[setting], own, pairs, asked)
    return pairs, shards


def _shard(place: Path, name: str, settings: dict[str, Any], pairs: Pairs, asked: np.ndarray) -> Shard:
    stored = METHODS[METHOD]
    images = read_tensor(place / f"arr_vbatch_{name}.pt", (IMAGES, CLASSES, SIDE * SIDE)).reshape(-1, 1, SIDE, SIDE)[
        asked
    ]
    iterations = read_tensor(place / f"iter_vbatch_{name}.pt", (IMAGES, CLASSES)).reshape(-1)[asked].astype(np.int64)
    metadata = {
        "method": METHOD,
        "display_name": stored.display_name,
        "settings": settings,
        "as_published": True,
        "unknown": ["confidence"],
        "file": f"arr_vbatch_{name}.pt",
    }
    confidence = np.full(len(images), np.nan, np.float32)
    found = iterations < stored.limit
    return Shard(
        pairs.image, pairs.label, pairs.target, images.astype(np.float32), found, confidence, iterations, metadata
    )


def _objective(kind: str, weight: float) -> dict[str, Any]:
    return {"objective": kind, "cross_entropy_weight": weight}
