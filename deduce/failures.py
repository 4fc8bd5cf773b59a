"""The jobs that a run did not finish, from Snakemake's own log."""

import re
from collections.abc import Iterable
from pathlib import Path


def failures(logs: Iterable[str | Path]) -> str:
    """The jobs that failed, each with its attempts and where to look."""
    failed: dict[str, list[tuple[str, str]]] = {}
    text = "\n".join(Path(log).read_text() for log in logs)
    for error in re.split(r"^Error in (?:local)?rule\s", text, flags=re.MULTILINE)[1:]:
        facts = dict(re.findall(r"^    (\w+): (.*)$", error.split("\n[")[0], flags=re.MULTILINE))
        # Snakemake's log quotes the log of a SLURM job, which repeats the error with job ID 0.
        if "output" in facts and not (facts["jobid"] == "0" and facts["output"] in failed):
            failed.setdefault(facts["output"], []).append((error.partition(":")[0], facts.get("log", "no log")))
    lines = []
    for output, attempts in failed.items():
        if not all(Path(file).exists() for file in output.split(", ")):
            name, where = attempts[-1]
            lines += [f"  {name}: {output}", f"    {len(attempts)} attempt(s); see {where.partition(' (check')[0]}"]
    return "\n".join([f"{len(lines) // 2} job(s) failed; the same command runs them again, and nothing else:", *lines])
