"""Counts what was injected and what came of it. Workers share a file; docs/reliability.md shows the sums."""

import fcntl
import json
import os
from collections import Counter
from pathlib import Path

FILE = os.environ.get("DEDUCE_FAULTS")  # the file to which a run adds; none: nothing is counted


def count(kind: str, what: str, outcome: str, times: int = 1) -> None:
    """Adds a line: `kind` of fault, `what` it was injected into, the outcome, and the test that did it."""
    if FILE:
        with Path(FILE).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(
                json.dumps([kind, what, outcome, times, os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]])
                + "\n"
            )


def sums(path: Path) -> dict[tuple[str, str, str], int]:
    totals: Counter[tuple[str, str, str]] = Counter()
    for line in path.read_text().splitlines():
        kind, what, outcome, times, *_ = json.loads(line)
        totals[kind, what, outcome] += times
    return dict(totals)
