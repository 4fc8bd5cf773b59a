"""The one place that writes and reads artefacts: whole or not at all, and never executing what it loads."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary name beside `path` that becomes `path` only if the block succeeds.

    A crash, a kill or a full disk leaves the old file, or none: never half of a new one.
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
        temporary.chmod(0o666 & ~mask)  # mkstemp made it private
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_json(path: str | Path, content: Any) -> None:
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def load_json(path: str | Path) -> Any:
    return json.loads(Path(path).read_text())


def save_tensors(path: str | Path, tensors: dict[str, Any], architecture: dict[str, Any]) -> None:
    """Weights as safetensors, with what is needed to rebuild their module in a `.json` beside them."""
    from safetensors.torch import save_file

    save_json(Path(path).with_suffix(".json"), architecture)
    with atomic(path) as temporary:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary)


def load_tensors(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors and the architecture that `save_tensors` wrote."""
    from safetensors.torch import load_file

    return load_file(path), load_json(Path(path).with_suffix(".json"))
