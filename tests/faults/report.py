"""`make test-faults`: runs every test of this folder, and writes docs/reliability.md from what they counted.

The arguments go to pytest. With `--last-failed`, what the last run counted stays, but for the tests that failed in it:
only these run again, after they or what they test was mended.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from tally import sums

ROOT = Path(__file__).resolve().parents[2]
PAGE, COUNTS, PARTS = ROOT / "docs/reliability.md", ROOT / "results/faults.jsonl", ROOT / "results/faults_parts.json"
FAILED = ROOT / ".pytest_cache/v/cache/lastfailed"
HEAD = """# Reliability: what was injected, and what came of it

`make test-faults` injects the faults below into real runs at test scale, and writes this page. `make test` includes a
fast part of it. A seed chooses the moments of the kills, the bytes and the files (`DEDUCE_FAULTS_SEED`, 1 if not set).

What is promised, and tested for every fault:

- **Nothing is lost.** Files are written under a temporary name and moved. What is right stays, whatever else fails.
- **Nothing is silently wrong.** Each job records the SHA-256 of what it makes (in `.sha256/` beside the files), and
  verifies what it reads. The error names the file and the command that makes it again.
- **A killed run resumes by the same command.** Nothing has to be unlocked. A run takes a lock that the kernel frees
  when the process ends ([deduce/lock.py](../deduce/lock.py)). A second run beside a live one is refused. Jobs that
  outlived their run are waited for; Snakemake has no record of what they made, so it is made again.
- **A bad input is one sentence**, within five seconds, before anything runs.
- **The same inputs make the same bytes** on one machine, in any folder, with one core or two, but for the
  [measured times](results.md#what-is-a-time).
"""
LEAST = {"kills": 100, "flipped bytes": 500, "bad inputs": 150, "disks": 20}  # of a complete run
TITLES = {
    "kills": "Kills",
    "flipped bytes": "Flipped bytes",
    "bad inputs": "Bad inputs",
    "disks": "Full and read-only disks",
    "two clones, 1 and 2 cores": "Two clones, with one core and with two",
    "fuzzed bytes": "Fuzzing",
}
LEADS = {
    "kills": "One job of every rule, but for those of alibi and of the authors' clone, is made again, and the run, its "
    "job or both (a process group) are killed. Then the run is started once more: it must finish, make the same bytes "
    "as before, lose no other file, and leave no temporary file.",
    "flipped bytes": "One byte of a file is changed. In the padding of a zip or gzip file this can leave the content "
    "as it was.",
    "bad inputs": "From one table, [tests/faults/bad_inputs.py](../tests/faults/bad_inputs.py).",
    "disks": "Small file systems in memory, mounted where files are written.",
    "two clones, 1 and 2 cores": "The whole default target, file by file.",
    "fuzzed bytes": "Inputs that atheris derived from valid files, guided by the code that they reach. Each ends in a "
    "value or in an `InputError`.",
}


def table(rows: dict[tuple[str, str], int], heads: tuple[str, str]) -> str:
    lines = [f"| {heads[0]} | {heads[1]} | times |", "|---|---|--:|"]
    lines += [f"| {what} | {outcome} | {times} |" for (what, outcome), times in sorted(rows.items())]
    return "\n".join(lines)


def kills(rows: dict[tuple[str, str], int]) -> str:
    """One line per rule, with the signals and what they hit; the other lines are outcomes."""
    rules: dict[str, dict[str, int]] = defaultdict(dict)
    others = []
    for (what, event), times in sorted(rows.items()):
        if event.startswith("SIG"):
            rules[what][event] = times
        else:
            others.append(f"- {what}: {event}, {times} times")
    lines = ["| rule | killed | how |", "|---|--:|---|"]
    for rule, events in rules.items():
        how = ", ".join(f"{times} × {event}" for event, times in events.items())
        lines.append(f"| `{rule}` | {sum(events.values())} | {how} |")
    return "\n".join([*lines, "", *others])


def injected(kind: str, outcome: str) -> bool:
    """Whether a line counts a fault: files that are not compared, and what came of kills, are none."""
    return outcome != "not compared" and (kind != "kills" or outcome.startswith("SIG"))


def about(parts: list[dict[str, float]]) -> str:
    """What the run took, in one part or in several."""
    minutes, busy = (round(sum(part[key] for part in parts) / 60) for key in ("seconds", "processor_seconds"))
    load = max(part["load"] for part in parts)
    text = f"The run that wrote this page took {minutes} minutes on a machine with {os.cpu_count()} cores, and {busy} "
    text += "minutes of processor time."
    if load > 2 * (os.cpu_count() or 1):
        text += f" The machine had other work, too: its load was up to {load:.0f}."
    if len(parts) > 1:
        text += f" It had {len(parts)} parts: what failed in one was mended, and run again in the next."
    return text


def page(path: Path, parts_of_run: list[dict[str, float]]) -> str:
    totals = sums(path)
    parts = [f"{HEAD}\n{about(parts_of_run)}\n"]
    for kind, title in TITLES.items():
        rows = {(what, outcome): times for (each, what, outcome), times in totals.items() if each == kind}
        total = sum(times for (_, outcome), times in rows.items() if injected(kind, outcome))
        if total < LEAST.get(kind, 1):
            sys.exit(f"{path}: has {total} {kind}, so the run was not complete; the page stays as it is.")
        body = kills(rows) if kind == "kills" else table(rows, ("into", "outcome"))
        parts.append(f"## {title}: {total:,}\n\n{LEADS[kind]}\n\n{body}\n")
    return "\n".join(parts)


def begin(again: bool) -> None:
    """Forget what the last run counted, or only what its failed tests counted."""
    if not again:
        COUNTS.unlink(missing_ok=True)
        PARTS.unlink(missing_ok=True)
    elif COUNTS.exists() and FAILED.exists():
        failed = json.loads(FAILED.read_text())
        lines = COUNTS.read_text().splitlines(keepends=True)
        COUNTS.write_text("".join(line for line in lines if json.loads(line)[-1] not in failed))


def main(*arguments: str) -> None:
    begin("--last-failed" in arguments)
    started = time.monotonic()
    pytest = [sys.executable, "-m", "pytest", "-m", "not slurm", "--last-failed-no-failures=none"]
    tests = [*pytest, *arguments, str(Path(__file__).parent)]
    environment = os.environ | {"DEDUCE_FAULTS": str(COUNTS), "OMP_NUM_THREADS": "1"}
    status = subprocess.run(tests, cwd=ROOT, env=environment).returncode
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    part = {"seconds": time.monotonic() - started, "processor_seconds": usage.ru_utime + usage.ru_stime}
    parts = json.loads(PARTS.read_text()) if PARTS.exists() else []
    parts.append(part | {"load": os.getloadavg()[2]})  # of the last 15 minutes
    PARTS.write_text(json.dumps(parts))
    if status:
        sys.exit(status)
    PAGE.write_text(page(COUNTS, parts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
