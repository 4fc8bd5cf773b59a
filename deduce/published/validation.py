"""The authors' tuning of DeDUCE on a validation batch, read from the folder `valset_batch` of a clone.

For each setting, the folder has the images for all originals and classes (`arr_vbatch_NAME.pt`) and the numbers of
iterations (`iter_vbatch_NAME.pt`). The name encodes the setting: `c` and the spectral coefficient; `m` and tenths of
momentum; `CL` and λ of equation 4, or `cl` and μ of equation 5 (neither means λ = 0); `p` and the pixels per step, if
more than one.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

from deduce.errors import InputError
from deduce.pairs import VALIDATION
from deduce.published.importer import IMAGES, read_pairs, read_shard
from deduce.shards import Pairs, Shard
from deduce.sweeps import Sweep

METHOD = "deduce"
FILE = re.compile(r"arr_vbatch_(c(\d+)m(\d)(?:(CL|cl)([\d.e+]+))?(?:p(\d))?(?:\(1\))?(?:p(\d))?)\.pt")


class Setting(NamedTuple):
    """The settings that the authors varied."""

    coefficient: float
    momentum: float
    objective: str
    cross_entropy_weight: float
    pixels_per_step: int


def sweeps(clone: str | Path) -> dict[str, Any]:
    """Appendix A and the authors' further settings, as a config declares sweeps; none if the clone lacks the folder."""
    if not _folder(clone).is_dir():
        return {}
    usual = {"momentum": 0, "objective": "relative", "cross_entropy_weight": 1, "pixels_per_step": 1}
    shared = {"method": METHOD, "on": [VALIDATION], "settings": usual | {"ddu.coefficient": 4}}
    # The paper's figures are means over the pairs that all 24 settings of the tuning found.
    shared |= {"compare_on": ["appendix_a", "appendix_a_more"]}
    weights = {("λ", "weighted"): (0, 1, 10, 100, 1000, 10_000, 100_000), ("μ", "relative"): (0.2, 1, 5)}
    objectives = {
        f"{symbol} = {weight}": {"objective": objective, "cross_entropy_weight": weight}
        for (symbol, objective), values in weights.items()
        for weight in values
    }
    more: dict[str, dict[str, Any]] = {"c = 4, 1 pixel, momentum 0": {}}
    more |= {f"c = {value}": {"ddu.coefficient": value} for value in (2, 3, 5)}
    more |= {f"{value} pixels": {"pixels_per_step": value} for value in (2, 3)}
    more |= {f"momentum {tenth / 10}": {"momentum": tenth / 10} for tenth in range(1, 10)}
    source = "the authors' stored results on their validation batch."
    appendix = {"description": f"Appendix A, {source}", "vary": {"objective": objectives}, "reference": "μ = 1"}
    beside = {"description": f"Beside appendix A, {source}", "vary": {"setting": more}}
    return {"appendix_a": shared | appendix, "appendix_a_more": shared | beside}


def import_validation(clone: str | Path, sweeps: list[Sweep]) -> tuple[Pairs, dict[str, Shard]]:
    """The pairs of the batch, and a shard per variant of the sweeps. Images are numbered within the batch."""
    folder, names = _folder(clone), setting_names(clone)
    pairs, shards = read_pairs(folder / f"orig_batch_{IMAGES}v"), {}
    for point in (point for sweep in sweeps for point in sweep.points):
        settings = {key: value for key, value in point.settings.items() if "." not in key}
        setting = Setting(coefficient=float(point.settings["ddu.coefficient"]), **settings)
        if setting not in names:
            raise InputError(f"{folder}: has no file arr_vbatch_… of '{point.label}'")
        files = [folder / f"{kind}_vbatch_{names[setting]}.pt" for kind in ("arr", "iter")]
        shards[point.variant] = read_shard(METHOD, pairs, *files, settings=settings)
    return pairs, shards


def setting_names(clone: str | Path) -> dict[Setting, str]:
    """The name of each stored setting. A repeated run, `(1)`, replaces the first one, because the paper shows it."""
    names: dict[Setting, str] = {}
    for path in sorted(_folder(clone).glob("arr_vbatch_*.pt"), key=lambda path: "(1)" in path.name):
        if match := FILE.fullmatch(path.name):
            name, coefficient, momentum, kind, weight, before, after = match.groups()
            pixels = before or after
            # With several pixels, the name leaves out the objective, which is the published one.
            kind, weight = (kind, weight) if kind else ("cl", 1) if pixels else ("CL", 0)
            objective = "weighted" if kind == "CL" else "relative"
            names[Setting(float(coefficient), int(momentum) / 10, objective, float(weight), int(pixels or 1))] = name
    return names


def _folder(clone: str | Path) -> Path:
    return Path(clone) / "valset_batch"
