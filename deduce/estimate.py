"""What an experiment will cost, from what past ones did: time and memory per rule, scaled by the work in their configs.

A past run is its config and the records of its jobs; a planned one is its config and a list of its jobs. The time of a
job is taken to be proportional to the powers of config keys in `PROPORTIONAL`, after a constant start.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

TRUSTED = 100  # the largest factor between a past job and a planned one that is not a mere guess
STARTUP = 5.0  # seconds of a job that are the interpreter and torch, whatever its work

PAIRS = {"images_per_seed": 1, "shards_per_seed": -1}  # in one job of a method
ANOGAN = {"realism.anogan.steps": 1, "realism.anogan.restarts": 1}  # per scored image
TRAINING = {"training_images": 1, "epochs": 1}

# The config keys that the time of a rule's job is proportional to, each with its power. A convolution's cost grows with
# the square of its width. Methods follow `_powers`; other rules take as long as they did.
PROPORTIONAL: dict[str, dict[str, int]] = {
    "classifier": {"{classifier}.width": 2, **{f"{{classifier}}.{key}": 1 for key in TRAINING}},
    "density": {"ddu.width": 2, "density.training_images": 1},
    "vae": {f"vae.{key}": 1 for key in TRAINING},
    "autoencoder": {f"autoencoder.{key}": 1 for key in TRAINING},
    "wgan": {"wgan.width": 1, **{f"wgan.{key}": 1 for key in TRAINING}},
    "class_autoencoders": {f"class_autoencoders.{key}": 1 for key in TRAINING},
    "realism_scores": {"images_per_seed": 1, **ANOGAN},
    "reference_scores": {"images_per_seed": 1, **ANOGAN},
    "sanity_scores": {"realism.sanity_images": 1, **ANOGAN},
}

ASSUMPTIONS = f"""\
- A job costs what the most similar past job of its rule did: {STARTUP:.0f} s of start, the rest in proportion to test
  images and parts per test set (methods), epochs and training images (models), steps and restarts (AnoGAN scores), the
  square of a classifier's width, and a method's limit of iterations, as if searches came as near to it as before.
- The machine is the past run's. Times of a run without GPUs are no measure of GPU hours: they are then an upper bound,
  and a small run on one GPU of the cluster gives a better one. Time spent in queues and on retries is not counted.
- Memory does not depend on the scale: batches, not test sets, are in memory. A wider network needs somewhat more.
- A factor far from 1 is a guess, above {TRUSTED} hardly an order of magnitude: run a larger experiment first."""


@dataclass(frozen=True)
class Job:
    """A job that was measured, or that is planned."""

    rule: str
    wildcards: Mapping[str, str]
    seconds: float = math.nan  # measured, wall clock
    memory_mb: float = math.nan  # measured: largest resident set
    gpu: bool = False  # planned
    classifier: str = ""  # planned: the one that a method explains
    requested_mb: float = math.nan  # planned
    requested_minutes: float = math.nan  # planned

    @property
    def kind(self) -> str:
        """Jobs of one kind are alike: those of a rule, or of a rule and the model that its cost depends on."""
        models = [name for name in ("classifier",) if name in self.wildcards and self.rule in PROPORTIONAL]
        return " ".join([self.rule, *(self.wildcards[name] for name in models)])


@dataclass(frozen=True)
class Run:
    """A past experiment."""

    name: str
    config: Mapping[str, Any]
    jobs: list[Job]


def read_benchmark(path: str | Path, rule: str, wildcards: Mapping[str, str]) -> list[Job]:
    """The measured jobs in a benchmark file that Snakemake wrote for this rule and these wildcards."""
    table = pd.read_csv(path, sep="\t")
    memory = pd.to_numeric(table["max_rss"], errors="coerce")  # a job too short to be sampled has none on record
    return [Job(rule, wildcards, float(seconds), float(peak)) for seconds, peak in zip(table["s"], memory, strict=True)]


def measured(runs: Iterable[Run]) -> pd.DataFrame:
    """Time and memory per run and kind of job: columns run, rule, jobs, mean_seconds, max_seconds, peak_memory_mb."""
    rows = [(run.name, job.kind, job.seconds, job.memory_mb) for run in runs for job in run.jobs]
    table = pd.DataFrame(rows, columns=["run", "rule", "seconds", "memory_mb"])
    return table.groupby(["run", "rule"], as_index=False).agg(
        jobs=("seconds", "size"),
        mean_seconds=("seconds", "mean"),
        max_seconds=("seconds", "max"),
        peak_memory_mb=("memory_mb", "max"),
    )


def work(job: Job, planned: Mapping[str, Any], past: Mapping[str, Any]) -> float:
    """How many times the work of the past job the planned one is, by their configs."""
    factor = 1.0
    for pattern, power in _powers(job, planned.get("methods", [])).items():
        # `ddu-c3` is a classifier of the section `ddu`.
        key = pattern.format(**{name: value.partition("-")[0] for name, value in job.wildcards.items()})
        now, then = _value(planned, key), _value(past, key)
        if now and then:
            factor *= (now / then) ** power
    return factor


def _powers(job: Job, methods: Iterable[str]) -> dict[str, int]:
    """What a job's time is proportional to; a method's to its pairs, its limit and its classifier's width squared."""
    method = job.rule.removeprefix("time_")
    if method not in methods:
        return PROPORTIONAL.get(job.rule, {})
    pairs = PAIRS if method == job.rule else {"timing.pairs": 1}
    return pairs | {f"{method}.max_iterations": 1, f"{job.classifier}.width": 2}


def estimate(planned: Iterable[Job], config: Mapping[str, Any], runs: Iterable[Run]) -> pd.DataFrame:
    """One row per kind of planned job: jobs, gpu, like (the past run), factor, hours_each, hours, peak and requests.

    Where no past run has such a job, `hours` is missing.
    """
    past: dict[str, list[Run]] = {}
    for run in runs:
        for kind in {job.kind for job in run.jobs}:
            past.setdefault(kind, []).append(run)
    kinds: dict[str, list[Job]] = {}
    for job in planned:
        kinds.setdefault(job.kind, []).append(job)
    return pd.DataFrame([_row(kind, jobs, config, past.get(kind, [])) for kind, jobs in kinds.items()])


def totals(table: pd.DataFrame) -> dict[str, float]:
    """Hours of the jobs that ask for a GPU, of the others, the longest single job; and of these, what is a guess."""
    gpu, guess = table["gpu"].astype(bool), table["factor"] > TRUSTED
    return {
        "guessed_hours": float(table.loc[guess, "hours"].sum()),
        "gpu_hours": float(table.loc[gpu, "hours"].sum()),
        "cpu_hours": float(table.loc[~gpu, "hours"].sum()),
        "longest_job_hours": float(table["hours_each"].max()),
    }


def _row(kind: str, jobs: list[Job], config: Mapping[str, Any], runs: list[Run]) -> dict[str, Any]:
    row: dict[str, Any] = {"rule": kind, "jobs": len(jobs), "gpu": jobs[0].gpu}
    factors = [(abs(math.log(factor)), factor, run) for run in runs if (factor := work(jobs[0], config, run.config))]
    if factors:
        _, factor, run = min(factors, key=lambda candidate: candidate[0])
        alike = [job for job in run.jobs if job.kind == kind]
        seconds = sum(job.seconds for job in alike) / len(alike)
        # Of a job that is hardly more than its start, a fifth is taken to be work.
        working = max(seconds - STARTUP, seconds / 5)
        each = (seconds - working + working * factor) / 3600
        peak = max(job.memory_mb for job in alike)
        row |= {"like": run.name, "factor": factor, "hours_each": each, "hours": each * len(jobs), "peak_mb": peak}
    else:
        row |= {"like": "", "factor": math.nan, "hours_each": math.nan, "hours": math.nan, "peak_mb": math.nan}
    return row | {"requested_mb": jobs[0].requested_mb, "requested_hours": jobs[0].requested_minutes / 60}


def _value(config: Mapping[str, Any], key: str) -> float | None:
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
