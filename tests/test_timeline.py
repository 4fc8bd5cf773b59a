"""The timeline of a run: which jobs are recorded, and which of them no number of cores makes faster."""

import sys
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks/studies"))

from timeline import Job, critical_path, draw, recorded_jobs, rows_of, seconds


def job(name: str, start: float, end: float, *inputs: str) -> Job:
    return Job(name, name, frozenset(inputs), frozenset([f"{name}.out"]), start, end)


def test_the_critical_path_is_the_longest_chain_not_the_last_to_end():
    data, long, short = job("data", 0, 1), job("long", 1, 9, "data.out"), job("short", 9, 10, "data.out", "raw")
    joined, late = job("joined", 10, 12, "long.out", "short.out"), job("late", 20, 21, "short.out")
    jobs = [data, long, short, joined, late]
    assert critical_path(jobs) == [data, long, joined] and seconds(critical_path(jobs)) == 11


def test_jobs_that_run_side_by_side_are_drawn_in_rows_of_their_own(tmp_path):
    first, second, third = job("first", 0, 5), job("second", 1, 3), job("third", 3, 6, "second.out")
    jobs = [first, second, third]
    assert rows_of(jobs) == {first: 0, second: 1, third: 1}
    draw(jobs, critical_path(jobs), tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").stat().st_size > 1000


def test_every_job_of_a_finished_run_is_recorded(finished):
    jobs = recorded_jobs(finished.root, "test")
    made = {file for job in jobs for file in job.outputs}
    shards = (finished.root / "results/test/shards").glob("*/*/*.npz")
    assert {str(path.relative_to(finished.root)) for path in shards} < made
    path = critical_path(jobs)
    assert path[-1].rule == "write_report" and path[0].rule in ("train", "pairs")
    assert all(before.end <= after.start + 1 for before, after in pairwise(path))
