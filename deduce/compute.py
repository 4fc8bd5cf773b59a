"""The one place that picks the device, and the one place that seeds random numbers."""

import ctypes
import hashlib
import os

import torch


def device() -> torch.device:
    """The GPU if there is one, else the CPU; the environment variable DEDUCE_DEVICE overrides."""
    return torch.device(os.environ.get("DEDUCE_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu"))


def generator(*key: int | str) -> torch.Generator:
    """A CPU generator that depends on `key` alone: the same numbers in any order, batch, process or machine."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def deterministic(seed: int) -> None:
    """Seeds torch's global generators and asks for reproducible kernels, for training."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # A debugging aid that costs up to a tenth of the time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def multiplies_bfloat16() -> bool:
    """Whether the device has instructions for products of bfloat16; where they are emulated, float32 is faster."""
    if device().type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    instructions = (
        "_is_avx512_bf16_supported",
        "_is_amx_tile_supported",
    )  # the oldest supported torch lacks these names
    return device().type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in instructions)


def keep_freed_memory() -> None:
    """Makes the process keep memory that it has freed, for its next arrays.

    glibc returns large arrays to the system at once, and each step of a search gets the same again, as pages that must
    be cleared: a fifth of the time of a step in some searches. Other C libraries are left as they are.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if set_option is not None:
        set_option(-3, 2**30)  # M_MMAP_THRESHOLD: the size from which an array has pages of its own
        set_option(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: the size of free memory that is returned
