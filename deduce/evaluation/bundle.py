"""A set of artefacts that travels: a folder, or one packed file of it, with checksums that are verified before use.

`SHA256SUMS` (as `sha256sum` writes it) lists every file but itself; `manifest.json` says what made them: the config,
versions, host and command.
"""

import gzip
import io
import json
import platform
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from deduce.artifacts import atomic, sha256
from deduce.errors import InputError

SUMS, MANIFEST = "SHA256SUMS", "manifest.json"
EXPERIMENT = ("name", "dataset", "seeds", "images_per_seed", "methods")
SUM_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


class BundleError(InputError):
    """A set of artefacts that is not what its checksums or its manifest say; the message names the file."""


def describe(config: dict[str, Any], command: str, versions: dict[str, str]) -> dict[str, Any]:
    """The manifest: what made a set of artefacts."""
    host = {"node": platform.node(), "system": platform.system(), "machine": platform.machine()}
    return {"config": config, "command": command, "versions": versions, "host": host}


def seal(folder: str | Path, names: Iterable[str], manifest: dict[str, Any]) -> None:
    """Writes the manifest and the checksums of the named files into their folder."""
    folder = Path(folder)
    with atomic(folder / MANIFEST) as temporary:  # not sorted: the config's order is that of its sweeps' points
        temporary.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    with atomic(folder / SUMS) as temporary:
        names = sorted({*names, MANIFEST})
        temporary.write_text("".join(f"{sha256(folder / name)}  {name}\n" for name in names))


def pack(folder: str | Path, destination: str | Path) -> None:
    """One `.tar.gz` of a sealed folder: the same bytes whenever, wherever and by whomever it is packed."""
    folder = Path(folder)
    with (
        atomic(destination) as temporary,
        temporary.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        # The two that say what is inside come first, so that reading them does not unpack the rest.
        for name in [SUMS, MANIFEST, *(name for name in Bundle(folder).sums if name != MANIFEST)]:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = (folder / name).stat().st_size, 0o644
            with (folder / name).open("rb") as content:
                archive.addfile(entry, content)


class Bundle:
    """A folder of artefacts or its packed file. Making one reads its checksums and manifest; `extract` verifies."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise BundleError(f"{self.path}: no such folder or file of artefacts")
        self.sums: dict[str, str] = {}
        first: dict[str, bytes] = {}
        for name, content in self._contents():
            if name in (SUMS, MANIFEST):
                first[name] = content.read()
            if len(first) == 2:
                break
        for name in (SUMS, MANIFEST):
            if name not in first:
                raise BundleError(f"{self.path}: has no {name}; is it a folder of artefacts (see docs/results.md)?")
        self.sums = self._parse(first[SUMS])
        try:
            self.manifest = json.loads(first[MANIFEST])
            self.config: dict[str, Any] = dict(self.manifest["config"])
            # What evaluating them needs to know; the rest of the config may be of any version of this project.
            self.experiment = {key: self.config[key] for key in EXPERIMENT}
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{self.path / MANIFEST}: not a manifest with a config ({error})") from error

    def _parse(self, content: bytes) -> dict[str, str]:
        sums = {}
        for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
            match = SUM_LINE.fullmatch(line)
            path = PurePosixPath(match[2]) if match else PurePosixPath("..")
            if match is None or path.is_absolute() or ".." in path.parts:
                raise BundleError(f"{self.path / SUMS}: line {number} is not a SHA-256 and a path inside the folder")
            sums[str(path)] = match[1]
        if MANIFEST not in sums:
            raise BundleError(f"{self.path / SUMS}: does not list {MANIFEST}")
        return sums

    def _contents(self) -> Iterator[tuple[str, IO[bytes]]]:
        """Every file, by its path in the bundle, opened; of a folder only those that are listed or do the listing."""
        if self.path.is_dir():
            for name in [SUMS, MANIFEST, *self.sums]:
                if (self.path / name).is_file():
                    with (self.path / name).open("rb") as content:
                        yield name, content
            return
        try:
            with tarfile.open(self.path, "r:gz") as archive:
                for entry in archive:
                    packed = archive.extractfile(entry) if entry.isfile() else None
                    if packed is not None:
                        # Read here, so that a damaged archive is recognised as one; an artefact fits into memory.
                        yield str(PurePosixPath(entry.name)), io.BytesIO(packed.read())
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise BundleError(f"{self.path}: not a whole .tar.gz of artefacts ({error})") from error

    def files(self) -> list[Path]:
        """The files on disk that the bundle consists of, as far as they exist: what a rule depends on."""
        if not self.path.is_dir():
            return [self.path]
        return [self.path / name for name in [SUMS, *self.sums] if (self.path / name).is_file()]

    def extract(self, destination: str | Path) -> None:
        """Copies all files to `destination`, each only if its SHA-256 is the one listed; the first bad one is named."""
        destination, seen = Path(destination), set()
        for name, content in self._contents():
            if name == SUMS or name in seen:
                continue
            if name not in self.sums:
                raise BundleError(f"{self.path}: holds {name}, which its {SUMS} does not list")
            with atomic(destination / name) as temporary:
                with temporary.open("wb") as copy:
                    shutil.copyfileobj(content, copy)
                if sha256(temporary) != self.sums[name]:
                    raise BundleError(
                        f"{self.path / name}: its SHA-256 is not the one in {SUMS}: the file was damaged or changed"
                    )
            seen.add(name)
        for name in self.sums:
            if name not in seen:
                raise BundleError(f"{self.path / name}: is listed in {SUMS}, but is missing")
        with atomic(destination / SUMS) as temporary:
            temporary.write_text("".join(f"{digest}  {name}\n" for name, digest in self.sums.items()))

    def require(self, names: Iterable[str]) -> None:
        """Fails unless all of these are listed: a set without them cannot be evaluated."""
        for name in names:
            if name not in self.sums:
                raise BundleError(f"{self.path / name}: is missing: the artefacts do not list it in {SUMS}")
