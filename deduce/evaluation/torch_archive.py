"""Reads a single tensor that torch.save wrote, without torch and without running what the file says.

Such a file is a zip archive of a small pickle, which names a storage and a shape, and of the storage's raw bytes. The
pickle may name nothing but the handful of harmless things below: any other name ends the reading.
"""

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from deduce.errors import InputError

STORAGES = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("?"),
}


def _rebuild(storage: np.ndarray, offset: int, shape: tuple, strides: tuple, *_: Any) -> np.ndarray:
    """The tensor's view of its storage; one that leaves the storage is refused: the bytes there are not its own."""
    if any(size < 0 for size in shape) or any(stride < 0 for stride in strides) or offset < 0:
        raise ValueError("negative size or stride")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and last >= len(storage):
        raise ValueError("the tensor is larger than its storage")
    view = np.lib.stride_tricks.as_strided(
        storage[offset:], shape, [stride * storage.itemsize for stride in strides], writeable=False
    )
    return view.copy()


ALLOWED: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
    ("collections", "OrderedDict"): OrderedDict,
    **{("torch", name): dtype for name, dtype in STORAGES.items()},
}


class _Reader(pickle.Unpickler):
    """An unpickler for which nothing exists but `ALLOWED`."""

    def __init__(self, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{root}/data.pkl")))
        self.archive, self.root = archive, root

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no tensor needs")
        return ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> np.ndarray:
        kind, dtype, key, _, size = pid
        if kind != "storage" or not isinstance(dtype, np.dtype) or not str(key).isdigit():
            raise pickle.UnpicklingError(f"unknown kind of storage {pid!r}")
        values = np.frombuffer(self.archive.read(f"{self.root}/data/{key}"), dtype)
        if len(values) != size:
            raise ValueError(f"a storage of {len(values)} values, {size} were announced")
        return values


def load_tensor(path: str | Path) -> np.ndarray:
    """The tensor of a `.pt` file as an array; anything else than a plain tensor is an `InputError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise ValueError("no data.pkl inside")
            tensor = _Reader(archive, pickles[0].removesuffix("/data.pkl")).load()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: not a tensor as torch 1.6 or later saves it ({error})") from error
    except (pickle.UnpicklingError, ValueError, TypeError, KeyError, EOFError, OSError, IndexError) as error:
        raise InputError(f"{path}: not a plain tensor ({error})") from error
    except Exception as error:  # a hostile pickle can fail in any way; whatever it is, it was not a tensor
        raise InputError(f"{path}: not a plain tensor ({type(error).__name__}: {error})") from error
    if not isinstance(tensor, np.ndarray):
        raise InputError(f"{path}: holds a {type(tensor).__name__}, not a tensor")
    return tensor
