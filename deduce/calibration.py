"""How to split and size the searches of a config, from a few iterations of each method on the hardware of its jobs.

A pair that these iterations do not find is taken to the limit of the config, so the proposed times are upper bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd

from deduce.estimate import iterations
from deduce.shards import Shard

PART_SECONDS = 3600  # what the longest part may take: much longer than a job's start, much shorter than a queue's limit
MARGIN = 2.0  # of the time and the memory of a job over what was measured; a retry asks for more
LEAST_MINUTES = 10
MEMORY_UNIT = 500  # MB, to which memory is rounded up
PEAK_MEMORY = re.compile(r"at most (\d+) MB")  # in the log of every job (scripts/_job.py)


@dataclass(frozen=True)
class Measurement:
    """What some iterations of a method took on one machine."""

    machine: str
    start: float  # seconds until the search began, and from its end to the end of the script
    iteration: float  # seconds of an iteration of one pair, in a full batch
    iterations: float  # of a pair of the config's test sets, at most on average
    memory: int  # MB

    @classmethod
    def of(cls, shard: Shard, settings: Mapping[str, Any], log: Path, benchmark: Path) -> Measurement:
        """settings: of the method in the config. log, benchmark: of the job that made the shard."""
        assert shard.seconds is not None
        seconds = float(shard.seconds.sum())
        return cls(
            machine=shard.metadata["machine"],
            start=max(float(pd.read_csv(benchmark, sep="\t")["s"][0]) - seconds, 0),
            iteration=seconds / float((shard.iterations + 1).sum()),
            iterations=iterations(dict(settings), shard.metadata["settings"], [shard]),
            memory=int(PEAK_MEMORY.findall(log.read_text(encoding="utf-8"))[-1]),
        )


def proposal(measured: Mapping[str, Measurement], pairs: int) -> pd.DataFrame:
    """One row per method, with what it asks for if the work on a test set of `pairs` pairs is split for all methods.

    All methods have the same number of parts: as many as the slowest needs.
    """
    seconds = {method: pairs * each.iterations * each.iteration for method, each in measured.items()}
    parts = min(ceil(max(seconds.values()) / PART_SECONDS), pairs)
    rows = []
    for method, each in measured.items():
        minutes = MARGIN * (each.start + seconds[method] * ceil(pairs / parts) / pairs) / 60
        rows.append(
            {
                "method": method,
                "machine": each.machine,
                "milliseconds_per_iteration": 1000 * each.iteration,
                "iterations_per_pair": each.iterations,
                "hours_per_test_set": seconds[method] / 3600,
                "shards_per_seed": parts,
                "runtime": max(ceil(minutes), LEAST_MINUTES),
                "mem_mb": MEMORY_UNIT * ceil(MARGIN * each.memory / MEMORY_UNIT),
            }
        )
    return pd.DataFrame(rows)


def as_settings(table: pd.DataFrame) -> str:
    """The proposal as lines for the config and for the profile of a site."""
    lines = ["# For the config:", f"shards_per_seed: {table['shards_per_seed'][0]}", ""]
    lines += ["# For slurm/config.yaml. A retry asks for more time and memory:", "set-resources:"]
    for row in table.itertuples():
        lines += [f"  {row.method}:", f"    runtime: {row.runtime} * attempt", f"    mem_mb: {row.mem_mb} * attempt"]
    return "\n".join(lines) + "\n"
