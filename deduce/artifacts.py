"""The one place that writes and reads artefacts. Files are written whole or not at all, and loading runs no code.

The digest of every file that a job has made is recorded in a hidden folder beside the file. A job that reads the file
verifies it first: a byte that changed on the disk is named, not averaged in.
"""

import contextlib
import errno
import functools
import hashlib
import json
import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deduce.errors import InputError

UNFINISHED = ".unfinished-"  # how the names of temporary files begin
RECORDS = ".sha256"  # the folder of the recorded digests, in the format of `sha256sum`
MOST_BYTES = 2**30  # of all arrays in one file
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# What a disk or its permissions refuse, whatever the program does.
REFUSED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary file beside `path` that becomes `path` only if the block succeeds.

    A crash, a kill or a full disk leaves the old file or none, never half of a new one.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The suffix is kept because numpy and matplotlib choose the format by it.
        handle, name = tempfile.mkstemp(prefix=f"{UNFINISHED}{path.stem[:100]}-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp and safetensors make files private
        temporary.replace(path)
    except Exception as error:
        if reason := refusal(error, path.parent):
            raise InputError(f"{path}: cannot be written: {reason}.") from error
        raise
    finally:
        if temporary:
            temporary.unlink(missing_ok=True)


def refusal(error: BaseException, folder: Path) -> str:
    """Why the disk refused a file in `folder`, in a few words; empty if `error` has another reason."""
    if isinstance(error, OSError) and error.errno in REFUSED:
        return os.strerror(error.errno).lower()
    # Libraries that write by themselves report this in their own ways: in the text of another error, or not at all.
    if isinstance(error, InputError):
        return ""
    for code in REFUSED:
        if os.strerror(code) in str(error):
            return os.strerror(code).lower()
    try:
        full = shutil.disk_usage(folder).free < 4096
    except OSError:
        return ""
    return os.strerror(errno.ENOSPC).lower() if full else ""


def remove_unfinished(folder: str | Path) -> None:
    """Delete the temporary files that killed jobs left. Nobody may be writing below the folder."""
    for path in Path(folder).rglob(f"{UNFINISHED}*"):
        path.unlink(missing_ok=True)


def sha256(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record_of(path: Path) -> Path:
    return path.parent / RECORDS / path.name


def record(path: str | Path) -> None:
    """Remember the digest of a file that was just made."""
    path = Path(path)
    save_sums(_record_of(path), {f"../{path.name}": sha256(path)})


def forget(path: str | Path) -> None:
    """Drop the digest of a file that is about to be made again."""
    _record_of(Path(path)).unlink(missing_ok=True)


def verify(path: str | Path) -> None:
    """An `InputError` if a file is not what was recorded when it was made; a file without a record passes."""
    path = Path(path)
    try:
        status = path.stat()
        recorded = _record_of(path).read_text(encoding="utf-8", errors="replace")[:64]
    except (FileNotFoundError, NotADirectoryError):
        return
    if _digest(path, status.st_ino, status.st_mtime_ns, status.st_size) != recorded:
        raise InputError(
            f"{path}: is damaged or was changed: its SHA-256 is not the one recorded when it was made. "
            f"`rm '{path}'`, and the same command again, makes it anew."
        )


@functools.cache
def _digest(path: Path, inode: int, modified: int, size: int) -> str:
    """The SHA-256 of a file, computed once in a process while the file stays the same."""
    return sha256(path)


def save_text(path: str | Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def save_csv(path: str | Path, frame: Any) -> None:
    """frame: a `pandas.DataFrame`, whose index is left out."""
    with atomic(path) as temporary:
        frame.to_csv(temporary, index=False)


def load_csv(path: str | Path, *columns: str) -> Any:
    """A `pandas.DataFrame` that has these columns, or an `InputError` that names the file."""
    import pandas as pd  # not needed by most jobs

    try:
        frame = pd.read_csv(path)
    except FileNotFoundError:
        raise
    except (ValueError, OverflowError, OSError) as error:  # pandas' own errors are ValueErrors, as is broken UTF-8
        raise InputError(f"{path}: not a readable CSV file ({str(error).strip()})") from None
    if missing := [column for column in columns if column not in frame]:
        raise InputError(f"{path}: has no column {missing[0]!r}")
    return frame


def save_arrays(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    with atomic(path) as temporary:
        np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]


def load_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` without pickles, or an `InputError`: sizes are checked before memory is taken."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > MOST_BYTES:
                raise ValueError(f"it claims to hold more than {MOST_BYTES} bytes")
            if not _complete(path, len(entries)):
                raise ValueError("its directory does not list all of its arrays")
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:  # a file from elsewhere can break zipfile, zlib and numpy in any way
        raise InputError(f"{path}: not a readable .npz without pickles ({error or type(error).__name__})") from error


def _complete(path: str | Path, entries: int) -> bool:
    """Whether the last record of a zip file counts so many entries: zipfile skips some where a length is damaged."""
    with open(path, "rb") as file:
        file.seek(-22, os.SEEK_END)  # the length of this record
        end = file.read()
    return end.startswith(b"PK\5\6") and int.from_bytes(end[10:12], "little") == entries


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"{entry.filename} has version {version} of the format")
        shape, fortran_order, dtype = HEADERS[version](file)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or size != entry.file_size - file.tell():
            raise ValueError(f"{entry.filename} is not an array of {dtype} {shape}")
        array = np.frombuffer(bytearray(file.read(size)), dtype) if size else np.empty(math.prod(shape), dtype)
        file.read()  # to its end, where zipfile checks the entry's checksum
    return array.reshape(shape, order="F" if fortran_order else "C")


def save_json(path: str | Path, content: Any) -> None:
    save_text(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


def save_sums(path: str | Path, sums: Mapping[str, str]) -> None:
    """The SHA-256 of files by name, in the format of `sha256sum`."""
    save_text(path, "".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def load_json(path: str | Path) -> Any:
    """The content of a JSON file; a file that is broken in any way raises an `InputError` that names it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"{path}: not a readable JSON file ({error})") from None
