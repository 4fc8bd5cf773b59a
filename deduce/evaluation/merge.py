"""Several sets of artefacts as one: runs that differ in their training seeds only are replicates of one experiment.

The first set has the names of the merged set and everything that replicates share. Of each further set, only what its
trainings made is added, under the names that these trainings have in the merged set.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from deduce.evaluation.bundle import MANIFEST, Bundle, BundleError, seal
from deduce.shards import Pairs
from deduce.variants import TRAINING_SEED, base, overrides, variant

# What two runs of one experiment may differ in: where they ran, how their work was split, and what else they made.
FREE = {"name", "sources", "artifacts", "published", "shards_per_seed", "timing", "training_seeds", "training_seed"}
FREE |= {"extras", "sweeps", "comparisons", "same_classifier", "dependence"}


def stored(paths: str | Sequence[str], check: Callable[[Bundle], None] = lambda bundle: None) -> Bundle:
    """The artefacts of a folder or packed file, or of several merged; `check` fails if one has no sensible config."""
    bundles = [Bundle(path) for path in ([paths] if isinstance(paths, str) else paths)]
    for bundle in bundles:
        check(bundle)
    return Merged(bundles) if len(bundles) > 1 else bundles[0]


class Merged(Bundle):
    """Artefacts of several runs. Making one compares their configs and their lists of files; `extract` their pairs."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self.first, *self.others = bundles
        self.path, self.sums, self.methods = self.first.path, dict(self.first.sums), self.first.methods
        for other in self.others:
            self._compare(other)
        trainings = list(dict.fromkeys(seed for bundle in bundles for seed in bundle.config["training_seeds"]))
        self.config = self.first.config | {"training_seeds": trainings}
        for other in self.others:
            for name, new in self._added(other):
                if self.sums.setdefault(new, other.sums[name]) != other.sums[name]:
                    raise BundleError(
                        f"{other.path / name}: {self.path} has other results for the same training seed; "
                        "artefacts that are merged need training seeds of their own."
                    )
        about = [
            {"training_seeds": bundle.config["training_seeds"]}
            | {key: bundle.manifest.get(key) for key in ("host", "versions", "command")}
            for bundle in bundles
        ]
        self.manifest = self.first.manifest | {"config": self.config, "merged": about}

    def _compare(self, other: Bundle) -> None:
        """Fails unless two configs differ only in keys that make no difference to a replicate."""
        ours, theirs = (dict(_settings(bundle.config)) for bundle in (self.first, other))
        for key in (key for key in ours if key in theirs and key.partition(".")[0] not in FREE):
            if ours[key] != theirs[key]:
                raise BundleError(
                    f"{self.path} and {other.path} cannot be merged: '{key}' is {ours[key]!r} in one and "
                    f"{theirs[key]!r} in the other; only training seeds may differ."
                )

    def _added(self, other: Bundle) -> Iterator[tuple[str, str]]:
        """The files of another set that its trainings made: their names there and in the merged set."""
        for name in other.sums:
            folder, user = PurePosixPath(name).parts[0], PurePosixPath(name).parent.name
            if folder in ("counterfactuals", "realism") and base(user) in self.config["methods"]:
                if PurePosixPath(name).stem.isdigit():  # a test set; sweeps and run times are of one training
                    yield name, f"{folder}/{self._renamed(user, other)}/{PurePosixPath(name).name}"
            elif folder == "models" and base(PurePosixPath(name).stem) in self.config["replicated"]:
                yield name, f"models/{self._renamed(PurePosixPath(name).stem, other)}.csv"

    def _renamed(self, name: str, other: Bundle) -> str:
        training = {TRAINING_SEED: other.config["training_seeds"][0]}  # of names without a training seed
        return variant(base(name), training | overrides(name), self.config)

    def files(self) -> list[Path]:
        return [path for bundle in (self.first, *self.others) for path in bundle.files()]

    def extract(self, destination: str | Path) -> None:
        """Copies the merged files to `destination`, each verified in its own set, and seals them."""
        destination, manifest = Path(destination), dict(self.manifest)
        self.first.extract(destination)
        destination.parent.mkdir(parents=True, exist_ok=True)
        for other, about in zip(self.others, manifest["merged"][1:], strict=True):
            with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".merged-") as copy:
                other.extract(copy)
                for pairs in (f"pairs/{seed}.npz" for seed in self.config["seeds"]):
                    if not _same(destination / pairs, Path(copy, pairs)):
                        raise BundleError(f"{other.path / pairs}: lists other pairs than {self.path / pairs}")
                for name, new in self._added(other):
                    (destination / new).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(Path(copy, name), destination / new)
            references = [name for name in other.sums if name.startswith("realism/original/")]
            about["same_judges"] = all(self.first.sums.get(name) == other.sums[name] for name in references)
        seal(destination, [name for name in self.sums if name != MANIFEST], manifest)


def _settings(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a config by its dotted key."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _same(*files: Path) -> bool:
    """Whether two files list the same pairs, whatever their bytes: machines compress differently."""
    a, b = map(Pairs.load, files)
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("image", "label", "target", "original"))
