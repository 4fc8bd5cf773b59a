"""A finished run of the whole workflow at test scale, made once and shared by the tests that look at it."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


@dataclass
class Checkout:
    """A copy of the repository that a test may run and damage."""

    root: Path

    def snakemake(self, *arguments: str, config: str = "config/test.yaml", **environment: str):
        command = [str(BIN / "snakemake"), *arguments, "--cores", "2", "--configfile", config]
        return subprocess.run(
            command,
            cwd=self.root,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )

    def planned(self, *arguments: str) -> set[str]:
        """The rules that a dry run would execute."""
        output = self.snakemake("--dry-run", *arguments).stdout
        return {
            line.split(":")[0].split()[-1] for line in output.splitlines() if line.startswith(("rule ", "localrule "))
        }

    def copy(self, to: Path) -> "Checkout":
        shutil.copytree(self.root, to, symlinks=True)  # copies times too, so that nothing looks new
        return Checkout(to)


@pytest.fixture(scope="session")
def alibi_python() -> Path:
    """The Python of an environment that has alibi."""
    python = Path(os.environ.get("DEDUCE_ALIBI_PYTHON") or ROOT / "results/environments/alibi/bin/python")
    if not python.exists():
        pytest.skip("alibi is not installed: `make alibi` does it, or DEDUCE_ALIBI_PYTHON names a Python that has it")
    return python


@pytest.fixture(scope="session")
def clean_checkout(tmp_path_factory) -> Checkout:
    """The files that git tracks, and nothing else."""
    root = tmp_path_factory.mktemp("checkout") / "repository"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, tracked.decode().split("\0")):
        if (ROOT / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    return Checkout(root)


@pytest.fixture(scope="session")
def finished(clean_checkout, tmp_path_factory) -> Checkout:
    """A checkout in which the default target has been made at test scale. Not to be changed: `copy` it."""
    checkout = clean_checkout.copy(tmp_path_factory.mktemp("finished") / "repository")
    run = checkout.snakemake()
    assert run.returncode == 0, run.stdout[-8000:]
    return checkout
