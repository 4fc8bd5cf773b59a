"""What a run of a config would cost on this machine, from the records of a finished run of any other config.

Each kind of job has known units of work: images × epochs of a training, pairs × iterations of a search, images ×
descents × steps of a score. The CPU seconds of the finished run, less what starting its jobs cost, are multiplied by
the ratio of the units and by the ratio of the costs of a unit, which is measured on untrained networks of both sizes.
Where the finished run did so little that starting its jobs cost more, the measured costs replace its seconds.

Assumptions: a pair that was found needs as many iterations as before, or more in proportion if the step size is
smaller, up to the limit. Pairs that were not found go on to be found at the rate of the second half of the recorded
iterations, because a short limit says little about a long one. As many counterfactuals are scored as if the recorded
share were found. The model card, tables, figures and the page cost nothing; sweeps and comparisons are not counted.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from deduce import compute, models
from deduce.artifacts import load_json
from deduce.datasets import DATASETS
from deduce.errors import InputError
from deduce.experiment import REFERENCES, RUN, Experiment
from deduce.fold import fold
from deduce.pairs import TIMED
from deduce.realism.anogan import AnoGAN
from deduce.shards import Shard
from deduce.training import Batch
from deduce.variants import base

CPU_TIME = re.compile(r"([\d.]+) s of CPU time")  # in the log of every job (scripts/_job.py)
REPEATS = 3  # of each measurement; the fastest counts
IMAGES = 100  # in a batch of a search, as in the paper
DESCENTS = 72


@dataclass(frozen=True)
class Work:
    """All jobs of one kind."""

    family: str  # of kinds that load the same libraries
    kind: str
    logs: str  # pattern of their logs; {} stands for the training of replicated models
    jobs: int
    units: float
    cost: Callable[[], float]  # measures the CPU seconds of one unit on this machine


@dataclass(frozen=True)
class FinishedRun:
    """The records of a run in results/NAME."""

    folder: Path
    experiment: Experiment

    @classmethod
    def load(cls, folder: str | Path) -> FinishedRun:
        folder = Path(folder)
        if not os.path.isfile(folder / "config.json"):  # false also if the name is too long
            raise InputError(f"{folder}: has no records of a run; `estimate_from` must name a finished experiment.")
        config = load_json(folder / "config.json")
        return cls(folder, Experiment(config, RUN, config["name"]))

    def cpu_seconds(self, pattern: str) -> list[float]:
        """Of each recorded job of a kind, by the pattern of its log; Snakemake's own benchmarks sample it coarsely."""
        patterns = dict.fromkeys(pattern.format(suffix) for suffix in ("", "@training_seed=*"))
        logs = [file.read_text(encoding="utf-8") for each in patterns for file in (self.folder / "logs").glob(each)]
        return [float(found[-1]) for log in logs if (found := CPU_TIME.findall(log))]

    def shards(self, method: str, sets: list[str]) -> list[Shard]:
        files = [self.folder / f"counterfactuals/{method}/{name}.npz" for name in sets]
        return [Shard.load(file) for file in files if file.exists()]


def estimate(experiment: Experiment, run: FinishedRun) -> pd.DataFrame:
    """One row per kind of job: `jobs, recorded_seconds, units, cost, hours`, the last in CPU core hours.

    units, cost: how many times as much work, and how many times as costly a unit of it is, as in the recorded run.
    """
    recorded = {work.kind: (work, run.cpu_seconds(work.logs)) for work in works(run.experiment, run)}
    rows = []
    for work in works(experiment, run):
        before, seconds = recorded.get(work.kind, (work, []))
        if not seconds:
            raise InputError(f"{run.folder}: has no record of {work.kind}; estimate from a run that has it.")
        # What starting costs: the CPU seconds of the job of this family that does the least else.
        start = min(second for other, family in recorded.values() if other.family == work.family for second in family)
        cost_before = before.cost()
        units, cost = work.units / before.units, work.cost() / cost_before
        of_work = sum(seconds) - len(seconds) * start
        if of_work < len(seconds) * start:  # a small part of the record: what was measured now is more precise
            of_work = before.units * cost_before
        hours = (work.jobs * start + of_work * units * cost) / 3600
        rows.append((work.kind, work.jobs, sum(seconds), units, cost, hours))
    return pd.DataFrame(rows, columns=["kind", "jobs", "recorded_seconds", "units", "cost", "hours"])


def works(experiment: Experiment, run: FinishedRun) -> Iterator[Work]:
    """The work of an experiment by kind. The finished run says how many iterations its pairs needed."""
    config, trainings = experiment.config, len(experiment.config["training_seeds"])
    sets, parts = len(experiment.seeds), config["shards_per_seed"]
    classes = len(experiment.dataset.classes)
    images = sets * config["images_per_seed"]
    for name in models.of_every_run():
        times = trainings if name in config["replicated"] else 1
        settings = experiment.settings(name)
        units = times * settings["training_images"] * settings.get("epochs", 1)
        cost = partial(training_cost, experiment, name)
        yield Work("training", f"training of {name}", f"models/{name}{{}}.log", times, units, cost)
    found = 0.0  # pairs found by all methods, as a multiple of the pairs
    for method in experiment.methods:
        for timed in (False, True):
            shards = run.shards(method, [TIMED] if timed else run.experiment.seeds)
            if not shards:
                raise InputError(f"{run.folder}: has no answers of {method}; estimate from a run that has this method.")
            pairs = config["timing"]["pairs"] if timed else images * (classes - 1) * trainings
            used = [
                name for name in map(base, shards[0].metadata["models"].values()) if not models.REGISTRY[name].needs
            ]
            cost = partial(gradient_cost, experiment, used, 1 if timed else IMAGES)
            units = pairs * iterations(experiment.settings(method), run.experiment.settings(method), shards)
            jobs, files = (1, f"{TIMED}-*") if timed else (sets * parts * trainings, "[0-9]*")
            yield Work("search", method + " (timed)" * timed, f"{method}{{}}/{files}.log", jobs, units, cost)
        found += float(np.concatenate([shard.found for shard in run.shards(method, run.experiment.seeds)]).mean())
    anogan = config["realism"]["anogan"]
    descents = anogan["steps"] * anogan["restarts"]
    judged = sum(min(config["realism"]["sanity_images"], available(name)) for name in experiment.judged)
    scored = images * (classes - 1) * trainings * found
    for rule, jobs, count in (
        ("realism_scores", sets * len(experiment.replicates), scored),
        ("reference_scores", sets, images * len(REFERENCES)),
        ("sanity_scores", len(experiment.judged), judged),
    ):
        cost = partial(descent_cost, experiment)
        yield Work("scores", rule.replace("_", " "), f"{rule}/*.log", jobs, count * descents, cost)


def iterations(settings: dict[str, Any], recorded: dict[str, Any], shards: list[Shard]) -> float:
    """The mean iterations of a pair, if the recorded pairs were searched with other settings."""

    before, after = limit(recorded), limit(settings)
    counts = np.concatenate([shard.iterations for shard in shards])
    found = np.concatenate([shard.found for shard in shards]) & (counts < before)
    counts = np.where(found, counts, before)
    late = (counts - before / 2).clip(0)  # iterations in the second half
    rate = (found & (late > 0)).sum() / max(late.sum(), 1)
    smaller = recorded.get("step_size", 1) / settings.get("step_size", 1)
    beyond = max(after / smaller - before, 0)  # in iterations of the recorded length
    further = -np.expm1(-rate * beyond) / rate if rate else beyond
    counts = counts + np.where(found, 0, further)
    return float(np.minimum(counts * smaller, after).mean()) + 1


def limit(settings: dict[str, Any]) -> float:
    """The most iterations of a pair."""
    return settings.get("max_iterations", 1) * settings.get("loss_weight_steps", 1)


def available(dataset: str) -> float:
    """The test images of a dataset, if that is declared."""
    split = DATASETS[dataset].splits["test"]
    return np.inf if split.stop is None else split.stop - split.start


def cpu_seconds(function: Callable[[], Any]) -> float:
    """The least CPU time of a few calls after a first one."""
    function()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def training_cost(experiment: Experiment, name: str) -> float:
    """CPU seconds per image of a training step, or of a closed form's single step."""
    settings, dataset = experiment.settings(name), experiment.dataset
    needed = {role: network(experiment, experiment.model(name, role)) for role in models.REGISTRY[name].needs}
    torch.manual_seed(0)
    task = models.REGISTRY[name].training_task(settings, dataset, **needed)
    task.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    task.module.train()
    wanted = settings.get("batch_size", 1000)
    classes = len(dataset.classes)
    labels = torch.arange(wanted * classes) % classes
    images, arranged = task.arranged(torch.rand(len(labels), *dataset.shape), labels)
    share = wanted / len(images)
    batch = Batch(images[:wanted], arranged[:wanted], 0, compute.generator("estimate"))
    return cpu_seconds(lambda: task.step(batch)) / (share * len(labels))


def gradient_cost(experiment: Experiment, names: list[str], rows: int) -> float:
    """CPU seconds per image of the gradients of some networks in their input, folded as in a search."""
    images = torch.rand(rows, *experiment.dataset.shape)
    folded = [fold(network(experiment, name), experiment.dataset.shape) for name in names]

    def gradients() -> None:
        for model in folded:
            variable = images.clone().requires_grad_()
            model(variable).sum().backward()

    return cpu_seconds(gradients) / rows


def network(experiment: Experiment, name: str) -> torch.nn.Module:
    """An untrained model of the registry that is made from nothing else, in evaluation mode."""
    torch.manual_seed(0)
    model = models.REGISTRY[base(name)]
    return model.build(*model.arguments(experiment.settings(name), experiment.dataset)).eval()


def descent_cost(experiment: Experiment) -> float:
    """CPU seconds per image and step of the AnoGAN score."""
    wgan = network(experiment, "wgan")
    images = torch.rand(DESCENTS, *experiment.dataset.shape)
    keys = [("estimate", row) for row in range(DESCENTS)]

    def scored(steps: int) -> float:
        return cpu_seconds(lambda: AnoGAN(steps=steps, restarts=1).score(wgan, images, keys))

    return (scored(22) - scored(2)) / 20 / DESCENTS
