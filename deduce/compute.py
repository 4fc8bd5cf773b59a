"""The one place that picks the device, and the one place that seeds random numbers."""

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
