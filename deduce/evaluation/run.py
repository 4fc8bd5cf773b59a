"""The data behind the tables and figures of a run, read from its artefacts when first needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deduce.artifacts import load_arrays, load_csv
from deduce.datasets import DATASETS, Dataset
from deduce.evaluation import results, statistics, summary
from deduce.shards import Pairs, Scores, Shard

TIMING = ["method", "seed", "image", "target", "found", "iterations", "seconds", "machine"]


@dataclass(eq=False)
class Run:
    """A run, made in this repository or stored."""

    experiment: Mapping[str, Any]  # the config
    # The files of each kind of artefact; under `results`, `references`, `sweep_tables` and `sweep_tests`, CSV files
    # that were made from them.
    artifacts: Mapping[str, Any]
    mode: str = "run"  # or "artifacts" or "published"

    # One row per method, training, test set, image and target.
    results = cached_property(lambda self: results.read(self._files("results")[0]))
    # Realism of the original images and their reconstructions: kind, seed, image, agan.
    references = cached_property(lambda self: self._frame("references", "kind", "seed", "image"))
    # Measurements of the models: model, quantity, value, reference, note.
    card = cached_property(lambda self: self._frame("card", "model", "quantity", "value", "reference", "note"))
    # Fréchet distances to real images of the target class: method, pairs, components, distance, low, high.
    frechet = cached_property(lambda self: self._frame("frechet", "method", "distance", "low", "high"))
    # How real images of two classes differ: label, target, attribute, difference, size.
    natural_changes = cached_property(
        lambda self: self._frame("natural_changes", "label", "target", "attribute", "difference", "size")
    )
    # The authors' summary of each test set: seed, method, agan, l0, l1, failure.
    summaries = cached_property(lambda self: self._frame("summaries", "seed", "method"))
    # Training records by model; and of the sweeps that belong to this run, the tables by the sweep's name, and the
    # tests by `NAME_tests`.
    records = cached_property(lambda self: self._frames("records"))
    sweep_tables = cached_property(lambda self: self._frames("sweep_tables"))
    sweep_tests = cached_property(lambda self: self._frames("sweep_tests"))
    # Arrays by name: figure 2's data, appendix B's reconstructions, and images by the generative models.
    features = property(lambda self: self._arrays("features"))
    reconstructions = property(lambda self: self._arrays("reconstructions"))
    pictures = property(lambda self: self._arrays("pictures"))
    # Summaries that several tables, figures and claims share.
    common = cached_property(lambda self: self.results[summary.common(self.results)])
    table1 = cached_property(lambda self: summary.table1(self.results))
    table2 = cached_property(lambda self: summary.table2(self.timing, list(self.names)))
    by_target = cached_property(lambda self: summary.by_target(self.results))
    tests = cached_property(lambda self: statistics.tests(self.results))

    @property
    def methods(self) -> list[str]:
        return list(self.experiment["methods"])

    @property
    def dataset(self) -> Dataset:
        return DATASETS[self.experiment["dataset"]]

    @property
    def published(self) -> bool:
        """Whether these are the authors' stored results."""
        return self.mode == "published"

    @property
    def training_seeds(self) -> list[int]:
        return list(self.experiment["training_seeds"])

    def classifier(self, method: str) -> str:
        """The network that a method explains; one of its own, if the config does not say."""
        return self.experiment.get(method, {}).get("classifier", method)

    def trainings(self, method: str) -> int:
        """How many trainings of the network that a method explains stand behind its results."""
        replicated = self.classifier(method) in self.experiment.get("replicated", ())
        return self.results["training_seed"].nunique() if replicated else 1

    @property
    def first_seed(self) -> str:
        return str(self.experiment["seeds"][0])

    @cached_property
    def first_training(self) -> pd.DataFrame:
        """The results with the models of the first training: those that pictures and single pairs are shown of."""
        return self.results[self.results["training_seed"] == self.experiment["training_seeds"][0]]

    def of_training(self, seed: int) -> Run:
        """This run as if it had one of its trainings only."""
        single = Run({**self.experiment, "training_seeds": [seed]}, self.artifacts, self.mode)
        single.results, single.references = self.results[self.results["training_seed"] == seed], self.references
        return single

    @cached_property
    def names(self) -> dict[str, str]:
        """Each method's display name, in the order of the config."""
        return dict(self.results[["method", "display_name"]].drop_duplicates().itertuples(index=False))

    @cached_property
    def timing(self) -> pd.DataFrame:
        """One row per timed pair of the methods whose shards record seconds."""
        rows = []
        for path in self._files("timed"):
            if path.parent.parent.name == "counterfactuals" and (shard := Shard.load(path)).seconds is not None:
                columns = {name: getattr(shard, name) for name in TIMING if hasattr(shard, name)}
                keys = {"method": path.parent.name, "seed": self.first_seed, "machine": shard.metadata.get("machine")}
                rows.append(pd.DataFrame(keys | columns))
        return pd.concat(rows)[TIMING] if rows else pd.DataFrame(columns=TIMING)

    @cached_property
    def sanity(self) -> dict[str, np.ndarray]:
        """AnoGAN scores of images of this run's dataset and of others, in the order of the registry of datasets."""
        paths = {path.stem: path for path in self._files("sanity")}
        order = [*(name for name in DATASETS if name in paths), *sorted(paths.keys() - DATASETS.keys())]
        return {name: Scores.load(paths[name]).values["agan"].astype(float) for name in order}

    def pairs(self, seed: str) -> Pairs:
        return Pairs.load(next(path for path in self._files("pairs") if path.stem == seed))

    def shard(self, method: str, seed: str) -> Shard:
        paths = {(path.parent.name, path.stem): path for path in self._files("counterfactuals")}
        return Shard.load(paths[method, seed])

    def _arrays(self, kind: str) -> dict[str, np.ndarray]:
        return load_arrays(self._files(kind)[0])

    def _frame(self, kind: str, *columns: str) -> pd.DataFrame:
        return load_csv(self._files(kind)[0], *columns)

    def _frames(self, kind: str) -> dict[str, pd.DataFrame]:
        return {path.stem: load_csv(path) for path in sorted(self._files(kind))}

    def _files(self, kind: str) -> list[Path]:
        paths = self.artifacts.get(kind, [])
        return [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
