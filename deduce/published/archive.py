"""Reads an array from a `.npy` file or a file of `torch.save`, without torch and without running code from the file.

A file of `torch.save` is a zip archive of a small pickle, which names a storage and a shape, and the raw bytes of the
storage. A pickle that names anything but the few harmless objects in `ALLOWED` is refused.
"""

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from deduce.errors import InputError

STORAGES = {"Float": "<f4", "Double": "<f8", "Long": "<i8", "Int": "<i4", "Byte": "u1", "Bool": "?"}


def _rebuild(storage: np.ndarray, offset: int, shape: tuple, strides: tuple, *_: Any) -> np.ndarray:
    """A copy of the tensor, which is a view of its storage; numpy refuses a view that reaches beyond the storage."""
    if min(shape, default=0) < 0:  # numpy takes -1 for "as many as fit"
        raise ValueError("negative size")
    size = storage.itemsize
    return np.ndarray(shape, storage.dtype, storage, size * offset, [size * stride for stride in strides]).copy()


ALLOWED: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
    ("collections", "OrderedDict"): OrderedDict,
    **{("torch", f"{name}Storage"): np.dtype(code) for name, code in STORAGES.items()},
}


class _Reader(pickle.Unpickler):
    """An unpickler that knows only the objects in `ALLOWED`."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        super().__init__(io.BytesIO(archive.read(name)))
        self.archive, self.root = archive, name.removesuffix("/data.pkl")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no tensor needs")
        return ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> np.ndarray:
        kind, dtype, key, _, size = pid
        if kind != "storage" or not isinstance(dtype, np.dtype) or not str(key).isdigit():
            raise pickle.UnpicklingError(f"unknown kind of storage {pid!r}")
        values = np.frombuffer(self.archive.read(f"{self.root}/data/{key}"), dtype)
        if len(values) != size:
            raise ValueError(f"a storage has {len(values)} values, but {size} were announced")
        return values


def load_array(path: str | Path, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """The array in a `.npy` file or the tensor in a `.pt` file; an `InputError` for anything else or another shape."""
    try:
        if Path(path).suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        else:
            with zipfile.ZipFile(path) as archive:
                array = _Reader(archive).load()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:  # a hostile pickle can fail in any way
        raise InputError(f"{path}: not a plain array ({type(error).__name__}: {error})") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: holds a {type(array).__name__}, not an array")
    if shape is not None and array.shape != shape:
        raise InputError(f"{path}: has shape {array.shape}, expected {shape}")
    return array
