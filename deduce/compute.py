"""The one place that picks the device and moves what it works on, and the one place that seeds random numbers."""

import ctypes
import hashlib
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCKING = ("cpu", "mps")  # copies to and from Apple's devices that nobody waits for have not always been right


def device() -> torch.device:
    """The GPU if there is one, else the CPU; the environment variable DEDUCE_DEVICE overrides.

    It can name any device of which torch knows: also one whose package registers itself when torch is imported.
    """
    return torch.device(os.environ.get("DEDUCE_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu"))


@dataclass(frozen=True)
class Accelerator:
    """How everything that is not the CPU computes, which has no effect on the CPU."""

    tf32: bool = False
    autocast: bool = False
    retire_every: int = 1


accelerator = Accelerator()


def configure(tf32: bool = False, autocast: bool = False, retire_every: int = 1) -> None:
    """Sets, for this process, how accelerators compute (docs/devices.md)."""
    global accelerator
    accelerator = Accelerator(tf32, autocast, retire_every)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def reduced_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which an accelerator multiplies bfloat16, if that is asked for."""
    reduced = accelerator.autocast and device.type != "cpu"
    return torch.autocast(device.type, torch.bfloat16) if reduced else nullcontext()


def retire_every(device: torch.device) -> int:
    """After how many iterations the host looks which rows of a search have ended; always 1 on the CPU."""
    return 1 if device.type == "cpu" else accelerator.retire_every


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on a device; nobody waits for the copy."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()  # without which the copy would block
    return tensor.to(device, non_blocking=device.type not in BLOCKING)


def fetched(tensor: Tensor) -> Tensor:
    """A tensor of any device on the host; it can be read after `synchronise`, or any other wait for the device."""
    return tensor.to("cpu", non_blocking=tensor.device.type not in BLOCKING)


def synchronise(device: torch.device) -> None:
    """Waits until a device has done everything."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


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
