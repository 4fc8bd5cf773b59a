"""Checkouts of the repository for the workflow tests, and one finished run that all of them share."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

# Two processes with two threads each are many times slower than with one, and how threads share sums changes rounding.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
# Workers of pytest-xdist run side by side, and share the cores.
CORES = max(1, 2 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@dataclass(frozen=True)
class Job:
    rule: str
    details: dict[str, str]  # what Snakemake prints of it: input, output, wildcards, …

    def __str__(self) -> str:
        return f"{self.rule}: {self.details.get('output', '')}"


@dataclass
class Checkout:
    """A copy of the repository that a test may run and damage."""

    root: Path

    def snakemake(self, *arguments: str, config: str = "config/test.yaml", cores: int = CORES, **environment: str):
        command = [str(BIN / "snakemake"), *arguments, "--cores", str(cores), "--configfile", config]
        return subprocess.run(
            command,
            cwd=self.root,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3600,
        )

    def jobs(self, *arguments: str, **options: str) -> list[Job]:
        """The jobs that a dry run would execute, sorted by what they make."""
        run = self.snakemake("--dry-run", *arguments, **options)
        assert run.returncode == 0, run.stdout[-5000:]
        blocks = re.findall(r"^(?:local)?rule (\w+):\n((?: {4}.*\n)*)", run.stdout, re.M)
        jobs = [Job(rule, dict(re.findall(r"^ {4}(\w+): (.*)$", text, re.M))) for rule, text in blocks]
        return sorted(jobs, key=str)

    def planned(self, *arguments: str, **options: str) -> set[str]:
        """The rules that a dry run would execute."""
        return {job.rule for job in self.jobs(*arguments, **options)}

    def copy(self, to: Path) -> "Checkout":
        shutil.copytree(self.root, to, symlinks=True)  # copies times too, so that nothing looks new
        return Checkout(to)


def shared(tmp_path_factory, name: str, make: Callable[[Path], None]) -> Checkout:
    """A checkout that is made once in a session, by the worker that needs it first."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of the temporary folders of all workers
    root, outcome = folder / name / "repository", folder / f"{name}.outcome"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not outcome.exists():
            root.parent.mkdir()
            try:
                make(root)
                outcome.write_text("")
            except BaseException as error:
                outcome.write_text(repr(error)[-3000:])
                raise
    assert not outcome.read_text(), f"another worker could not make {name}: {outcome.read_text()}"
    return Checkout(root)


@pytest.fixture
def double(monkeypatch):
    """torch and the search engine compute in 64 bits."""
    import numpy as np
    import torch
    from small_world import autoencoder

    from deduce import search

    autoencoder()  # it and the small world are trained in 32 bits
    torch.set_default_dtype(torch.float64)
    monkeypatch.setattr(torch.nn.Module, "float", lambda network: network)
    monkeypatch.setattr(search, "image_tensor", lambda images: torch.as_tensor(np.asarray(images)).double())
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def alibi_python() -> Path:
    """The Python of an environment that has alibi."""
    python = Path(os.environ.get("DEDUCE_ALIBI_PYTHON") or ROOT / "results/environments/alibi/bin/python")
    if not python.exists():
        pytest.skip("alibi is not installed: `make alibi` does it, or DEDUCE_ALIBI_PYTHON names a Python that has it")
    return python


@pytest.fixture(scope="session")
def clean_checkout(tmp_path_factory) -> Checkout:
    """The files that git tracks or would track, and nothing else. Not to be changed: `copy` it."""

    def make(root: Path) -> None:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode()
        for name in filter(None, names.split("\0")):
            if (ROOT / name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)

    return shared(tmp_path_factory, "clean", make)


@pytest.fixture(scope="session")
def finished(clean_checkout, tmp_path_factory) -> Checkout:
    """A checkout in which the default target has been made at test scale. Not to be changed: `copy` it."""

    def make(root: Path) -> None:
        run = clean_checkout.copy(root).snakemake(cores=2)  # most other tests wait for it
        assert run.returncode == 0, run.stdout[-8000:]

    return shared(tmp_path_factory, "finished", make)
