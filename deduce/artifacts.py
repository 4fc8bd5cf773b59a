"""The one place that writes and reads artefacts. Files are written whole or not at all, and loading runs no code."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary file beside `path` that becomes `path` only if the block succeeds.

    A crash, a kill or a full disk leaves the old file or none, never half of a new one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix is kept because numpy and matplotlib choose the format by it.
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp and safetensors make files private
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_text(path: str | Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def save_csv(path: str | Path, frame: Any) -> None:
    """frame: a `pandas.DataFrame`, whose index is left out."""
    with atomic(path) as temporary:
        frame.to_csv(temporary, index=False)


def save_arrays(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    with atomic(path) as temporary:
        np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]


def save_json(path: str | Path, content: Any) -> None:
    save_text(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


def save_sums(path: str | Path, sums: Mapping[str, str]) -> None:
    """The SHA-256 of files by name, in the format of `sha256sum`."""
    save_text(path, "".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def load_json(path: str | Path) -> Any:
    return json.loads(Path(path).read_text())
