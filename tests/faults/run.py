"""A finished run that tests may damage and restore, and what of a run is a measured time."""

import fnmatch
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conftest import BIN, Checkout

from deduce.artifacts import RECORDS, UNFINISHED, sha256

SEED = int(os.environ.get("DEDUCE_FAULTS_SEED", "1"))
LIMIT = 1800  # seconds, after which a run that should end by itself counts as hanging, also on a busy machine
# The files of a run that hold a measured time, or the host and the command of the run. Every other file has the same
# bytes in every run on one machine, whatever the number of cores and the folder.
TIMES = (
    "logs/*", "benchmarks/*", "manifest.json", "SHA256SUMS", "report.html", "archive/*",
    "models/*.csv",  # the column `seconds` of the training records; `card.csv` has no times
    "shards/*/timed/*", "shards/*/sample*/*", "counterfactuals/*/timed.npz", "counterfactuals/*/sample*.npz",
    "tables/table2*", "tables/claims.*", "figures/run_times.*", "tables/vlk_parity*", "figures/vlk_parity.*",
    "config.json",  # where the data comes from
)  # fmt: skip
TIMELESS = ("models/card.csv",)


def is_time(name: str) -> bool:
    """Whether a file holds a measured time; its name begins with the name of its run."""
    in_run = name.partition("/")[2]
    return in_run not in TIMELESS and any(fnmatch.fnmatch(in_run, pattern) for pattern in TIMES)


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below `results`, data and all runs, by name, without records of digests."""
    files = (path for path in folder.rglob("*") if path.is_file() and RECORDS not in path.parts)
    return {str(path.relative_to(folder)): sha256(path) for path in files}


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The names of files that only one run has, or that differ although they hold no time."""
    kept = {name for name in one.keys() | other.keys() if not is_time(name)}
    return sorted(name for name in kept if one.get(name) != other.get(name))


@dataclass
class Victim:
    """A copy of a finished run in which jobs are killed and files are damaged; `restore` makes it whole again."""

    pristine: Checkout
    root: Path
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    runs: int = 0  # started so far

    def __post_init__(self) -> None:
        shutil.copytree(self.pristine.root, self.root, symlinks=True, ignore=shutil.ignore_patterns("raw"))
        for raw in (self.pristine.root / "results/data").glob("*/raw"):  # large, and written by replacing files only
            shutil.copytree(raw, self.root / raw.relative_to(self.pristine.root), copy_function=os.link)
        self.whole = self.digests()

    @property
    def results(self) -> Path:
        return self.root / "results/test"

    def digests(self) -> dict[str, str]:
        return digests(self.root / "results")

    def restore(self) -> None:
        """Make the runs whole again; the data stay as they are."""
        for whole in (*(self.pristine.root / "results").iterdir(), self.pristine.root / ".snakemake"):
            damaged = self.root / whole.relative_to(self.pristine.root)
            if whole.is_dir() and whole.name != "data":
                shutil.rmtree(damaged, ignore_errors=True)
                shutil.copytree(whole, damaged, symlinks=True)

    def start(self, *targets: str, config: str = "config/test.yaml", settings: Sequence[str] = ()) -> subprocess.Popen:
        """A run in a process group of its own, as a terminal makes one. `settings` go to `--config`."""
        sources = f"sources=['folder:{self.pristine.root / 'results/data'}']"
        options = ["--cores", "1", "--configfile", config, "--config", sources, *settings]
        self.runs += 1
        log = (self.root / f"output-{self.runs}.log").open("w")
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [str(BIN / "snakemake"), *targets, *options],
            cwd=self.root,
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=mind_interrupts,
        )

    def output(self, run: int = 0) -> str:
        """What a run printed; by default, the last one."""
        return (self.root / f"output-{run or self.runs}.log").read_text(errors="replace")

    def finish(self, *targets: str) -> tuple[int, str]:
        """Run to the end; exit status and output."""
        process = self.start(*targets)
        try:
            return process.wait(LIMIT), self.output()
        finally:
            end(process.pid)

    def scripts(self) -> list[int]:
        """The processes that run a script of this victim's jobs, without those that a script has just forked."""
        found: dict[int, int] = {}  # and their parents
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
                inside = b"/.snakemake/scripts/" in command and b"bash" not in command.split(b"\0")[0]
                if inside and (folder / "cwd").readlink() == self.root:
                    status = (folder / "stat").read_text()
                    found[int(folder.name)] = int(status.rpartition(")")[2].split()[1])
            except OSError:
                continue
        return [process for process, parent in found.items() if parent not in found]

    def unfinished(self) -> list[Path]:
        return list((self.root / "results").rglob(f"{UNFINISHED}*"))


def mind_interrupts() -> None:
    """SIGINT ends the process that begins, also where a shell started these tests in the background, without it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def end(group: int) -> None:
    """End the processes that this test has started and that are still there."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_until(condition) -> bool:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
