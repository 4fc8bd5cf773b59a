"""When each job of a finished run ran, and its critical path: the longest chain of jobs of which each needs the last.

With any number of cores, a run cannot be faster than this chain, nor faster than all jobs divided by the cores.

`python benchmarks/studies/timeline.py NAME` reads what Snakemake recorded of the outputs in results/NAME, here or in
`--directory`, and writes results/benchmarks/timeline-NAME.png and .json.
"""

import argparse
import base64
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Job:
    rule: str
    label: str
    inputs: frozenset[str]
    outputs: frozenset[str]
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


def recorded_jobs(directory: Path, name: str) -> list[Job]:
    """The jobs that made the present files of results/NAME, by their start."""
    outputs: dict[Any, set[str]] = {}
    records = {}
    for file in (directory / ".snakemake/metadata").rglob("*"):
        if file.is_dir():
            continue
        parts = file.relative_to(directory / ".snakemake/metadata").parts  # long names are split over folders
        output = base64.b64decode("".join(part.removeprefix("@") for part in parts)).decode()
        record = json.loads(file.read_text())
        if output.startswith(f"results/{name}/") and record["starttime"] and (directory / output).exists():
            job = (record["rule"], *record["log"])
            outputs.setdefault(job, set()).add(output)
            records[job] = record
    jobs = []
    for job, record in records.items():
        label = Path(record["log"][0]).with_suffix("").as_posix().split("/logs/")[-1]
        inputs = frozenset(record["input"])
        jobs.append(Job(job[0], label, inputs, frozenset(outputs[job]), record["starttime"], record["endtime"]))
    return sorted(jobs, key=lambda job: job.start)


def critical_path(jobs: list[Job]) -> list[Job]:
    """The chain of jobs, each made from the one before, that takes the most seconds in all."""
    maker = {output: job for job in jobs for output in job.outputs}
    longest: dict[Job, list[Job]] = {}
    for job in jobs:  # by their start, so the makers of a job's input come before it
        before = [longest[maker[file]] for file in job.inputs if file in maker]
        longest[job] = [*max(before, key=seconds, default=[]), job]
    return max(longest.values(), key=seconds)


def seconds(jobs: list[Job]) -> float:
    return sum(job.seconds for job in jobs)


def rows_of(jobs: list[Job]) -> dict[Job, int]:
    """The first free row for each job."""
    free: list[float] = []
    rows = {}
    for job in jobs:
        row = next((row for row, end in enumerate(free) if end <= job.start + 0.05), len(free))
        free[row : row + 1] = [job.end]
        rows[job] = row
    return rows


def draw(jobs: list[Job], path: list[Job], file: Path) -> None:
    begin, rows = jobs[0].start, rows_of(jobs)
    rules = list(dict.fromkeys(job.rule for job in jobs))
    colours = dict(zip(rules, (plt.get_cmap("tab20")(i % 20) for i in range(len(rules))), strict=True))
    figure, axis = plt.subplots(figsize=(14, 1.5 + 0.55 * (max(rows.values()) + 1)), layout="constrained")
    span = max(job.end for job in jobs) - begin
    for job in jobs:
        edge = "black" if job in path else "none"
        left, colour = job.start - begin, colours[job.rule]
        (bar,) = axis.barh(rows[job], job.seconds, left=left, color=colour, edgecolor=edge, linewidth=1.5)
        if job.seconds > span / 40:
            text = "\n ".join([*job.label.split("/"), f"{job.seconds:.0f} s"])
            axis.text(left, rows[job], " " + text, va="center", fontsize=6, clip_path=bar)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colours[rule]) for rule in rules]
    axis.legend(handles, rules, ncols=10, fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    axis.set(xlabel="seconds since the first job (outlined: the critical path)", yticks=[], xlim=(0, span))
    axis.invert_yaxis()
    axis.spines[["left", "right", "top"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="of the experiment")
    parser.add_argument("--directory", type=Path, default=ROOT, help="where Snakemake was started")
    options = parser.parse_args()
    jobs = recorded_jobs(options.directory, options.name)
    if not jobs:
        parser.error(f"Snakemake recorded no job of results/{options.name} in {options.directory}.")
    path = critical_path(jobs)
    begin, span = jobs[0].start, max(job.end for job in jobs) - jobs[0].start
    totals: Counter[str] = Counter()
    for job in jobs:
        totals[job.rule] += job.seconds
    counts = Counter(job.rule for job in jobs)
    rules = {rule: {"jobs": counts[rule], "seconds": round(total, 1)} for rule, total in totals.most_common()}
    steps = [{"job": job.label, "start": round(job.start - begin, 1), "seconds": round(job.seconds, 1)} for job in path]
    report = {
        "seconds": round(span, 1),
        "critical_seconds": round(seconds(path), 1),
        "jobs": len(jobs),
        "rules": rules,
        "critical_path": steps,
    }
    file = ROOT / f"results/benchmarks/timeline-{options.name}.json"
    draw(jobs, path, file.with_suffix(".png"))
    file.write_text(json.dumps(report, indent=2))
    print(f"{span:.0f} s, {len(jobs)} jobs of {seconds(jobs):.0f} s in all; a critical path of {seconds(path):.0f} s:")
    for step in steps:
        print(f"{step['start']:7.1f} + {step['seconds']:6.1f} s  {step['job']}")
    for rule, line in rules.items():
        print(f"{line['seconds']:8.1f} s {line['jobs']:3d} × {rule}")


if __name__ == "__main__":
    main()
