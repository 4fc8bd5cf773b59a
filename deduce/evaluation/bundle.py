"""A set of artefacts that travels: a folder, or one packed file of it, with checksums that are verified before use.

`SHA256SUMS` (as `sha256sum` writes it) lists every file but itself; `manifest.json` says what made them: the config,
versions, host and command.
"""

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from deduce.artifacts import MOST_BYTES, atomic, save_sums, save_text, sha256
from deduce.config import checked
from deduce.errors import InputError
from deduce.provenance import versions

SUMS, MANIFEST = "SHA256SUMS", "manifest.json"
# The keys of the config that evaluating artefacts needs; the others may come from any version of this project.
DESCRIBED = ("name", "dataset", "seeds", "images_per_seed", "methods", "training_seeds", "replicated")
CHECKED = (*DESCRIBED, "sweeps", "comparisons", "shards_per_seed")
CHANGED = f"its SHA-256 is not the one in {SUMS}: the file was damaged or changed"
SUM_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


class BundleError(InputError):
    """A set of artefacts does not match its checksums or its manifest; the message names the file."""


def describe(config: dict[str, Any], *packages: str) -> dict[str, Any]:
    """The manifest: what made a set of artefacts. The workflow leaves its command in the environment."""
    host = {"node": platform.node(), "system": platform.system(), "machine": platform.machine()}
    command = os.environ.get("DEDUCE_COMMAND", "")
    return {"config": config, "command": command, "versions": versions(*packages), "host": host}


def seal(folder: str | Path, names: Iterable[str], manifest: dict[str, Any]) -> None:
    """Writes the manifest and the checksums of the named files into their folder."""
    folder = Path(folder)
    # Not sorted: sweeps keep the order of their points.
    save_text(folder / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    save_sums(folder / SUMS, {name: sha256(folder / name) for name in sorted({*names, MANIFEST})})


def pack(folder: str | Path, destination: str | Path) -> None:
    """One `.zip` or `.tar.gz` of a sealed folder: the same bytes at any time, on any machine."""
    with atomic(destination) as temporary, temporary.open("wb") as raw:
        if Path(destination).suffix == ".zip":
            with zipfile.ZipFile(raw, "w") as archive:
                for name, content in _sealed(Path(folder)):
                    entry = zipfile.ZipInfo(name)  # of 1980, and readable by all
                    entry.create_system, entry.external_attr = 3, 0o644 << 16
                    archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
            return
        with (
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name, content in _sealed(Path(folder)):
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o644
                tar.addfile(member, io.BytesIO(content))


def _sealed(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The verified files of a folder. Checksums and manifest come first: reading them need not unpack the rest."""
    sums = Bundle(folder).sums
    for name in [SUMS, MANIFEST, *(name for name in sums if name != MANIFEST)]:
        if not (folder / name).is_file():
            raise BundleError(f"{folder / name}: is listed in {SUMS}, but is missing")
        content = (folder / name).read_bytes()
        if name != SUMS and hashlib.sha256(content).hexdigest() != sums[name]:
            raise BundleError(f"{folder / name}: {CHANGED}")
        yield name, content


class Bundle:
    """A folder of artefacts or its packed file. Making one reads its checksums and manifest; `extract` verifies."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not os.path.exists(self.path):  # false also of a name that is too long, unlike Path.exists
            raise BundleError(f"{self.path}: no such folder or file of artefacts")
        self.sums: dict[str, str] = {}
        first: dict[str, bytes] = {}
        for name, content in self._contents():
            if name in (SUMS, MANIFEST):
                first[name] = content.read()
            if len(first) == 2:
                break
        if absent := [name for name in (SUMS, MANIFEST) if name not in first]:
            raise BundleError(f"{self.path}: has no {absent[0]}; is it a folder of artefacts (see docs/results.md)?")
        self._read_sums(first[SUMS].decode(errors="replace"))
        try:
            self.manifest = json.loads(first[MANIFEST])
            self.config: dict[str, Any] = dict(self.manifest["config"])
            # Artefacts that are older than these keys are of one training.
            single = {"training_seeds": [self.config.pop("training_seed", 1)], "replicated": []}
            self.config = single | self.config
            for key in DESCRIBED:
                self.config[key]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BundleError(f"{self.path / MANIFEST}: not a manifest with a config ({error})") from error
        self.methods: list[str] = self.config["methods"]
        if not isinstance(self.methods, list) or not all(isinstance(name, str) for name in self.methods):
            raise BundleError(f"{self.path / MANIFEST}: 'methods' is not a list of names")

    def check(self, properties: dict[str, Any]) -> None:
        """Fails unless the config has sensible values where evaluating depends on them; properties: of the schema."""
        known = {key: part for key, part in properties.items() if key in CHECKED}
        sections = {name: {"type": ["object", "null"]} for name in self.methods}
        described = {key: value for key, value in self.config.items() if key in known or key in sections}
        try:
            checked(described, {"properties": sections | known})
        except InputError as error:
            raise BundleError(f"{self.path / MANIFEST}: {error}") from None

    def _read_sums(self, text: str) -> None:
        for number, line in enumerate(text.splitlines(), start=1):
            match = SUM_LINE.fullmatch(line)
            path = PurePosixPath(match[2] if match else "..")
            longest = max((len(part.encode()) for part in path.parts), default=0)  # a file system allows 255 bytes
            if match is None or path.is_absolute() or ".." in path.parts or longest > 255:
                raise BundleError(f"{self.path / SUMS}: line {number} is not a SHA-256 and a path inside the folder")
            self.sums[str(path)] = match[1]
        if MANIFEST not in self.sums:
            raise BundleError(f"{self.path / SUMS}: does not list {MANIFEST}")

    def _contents(self) -> Iterator[tuple[str, IO[bytes]]]:
        """Every file: its path in the bundle, and its content. Of a folder, only the checksums and the listed files."""
        if self.path.is_dir():
            for path in (self.path / name for name in [SUMS, MANIFEST, *self.sums]):
                if path.is_file():
                    with path.open("rb") as content:
                        yield path.relative_to(self.path).as_posix(), content
            return
        try:
            for name, size, packed in self._entries():
                if size > MOST_BYTES:
                    raise ValueError(f"{name} claims to hold more than {MOST_BYTES} bytes")
                # Reading here catches a damaged archive; an artefact fits into memory.
                yield str(PurePosixPath(name)), io.BytesIO(packed.read(size))
        except Exception as error:  # a file from elsewhere can break zipfile, tarfile and zlib in any way
            raise BundleError(f"{self.path}: not a whole .zip or .tar.gz of artefacts ({error})") from error

    def _entries(self) -> Iterator[tuple[str, int, IO[bytes]]]:
        """Every file of the packed file: its path, its size and its content."""
        if zipfile.is_zipfile(self.path):
            with zipfile.ZipFile(self.path) as archive:
                for entry in archive.infolist():
                    if not entry.is_dir():
                        with archive.open(entry) as content:
                            yield entry.filename, entry.file_size, content
            return
        with tarfile.open(self.path, "r:gz") as tar:
            for member in tar:
                if member.isfile() and (packed := tar.extractfile(member)):
                    yield member.name, member.size, packed

    def files(self) -> list[Path]:
        """The bundle's existing files on disk, which a rule depends on."""
        names = [SUMS, *self.sums] if self.path.is_dir() else [""]
        return [self.path / name for name in names if (self.path / name).is_file()]

    def extract(self, destination: str | Path) -> None:
        """Copies all files to `destination`; fails, with its name, at the first whose SHA-256 is not the listed one."""
        destination, seen = Path(destination), {SUMS}
        for name, content in self._contents():
            if name in seen:
                continue
            if name not in self.sums:
                raise BundleError(f"{self.path}: holds {name}, which its {SUMS} does not list")
            with atomic(destination / name) as temporary:
                with temporary.open("wb") as copy:
                    shutil.copyfileobj(content, copy)
                if sha256(temporary) != self.sums[name]:
                    raise BundleError(f"{self.path / name}: {CHANGED}")
            seen.add(name)
        if absent := [name for name in self.sums if name not in seen]:
            raise BundleError(f"{self.path / absent[0]}: is listed in {SUMS}, but is missing")
        save_sums(destination / SUMS, self.sums)

    def require(self, names: Iterable[str]) -> None:
        """Fails unless all these files are listed: artefacts without them cannot be evaluated."""
        if absent := [name for name in names if name not in self.sums]:
            raise BundleError(f"{self.path / absent[0]}: is missing: the artefacts do not list it in {SUMS}")
