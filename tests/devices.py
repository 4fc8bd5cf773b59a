"""A simulated device, `sim:0`, which shows on any machine whether tensors are where they have to be.

A tensor on it holds a CPU tensor. As on a GPU, an operation whose operands lie on both `sim` and the CPU fails, unless
the one on the CPU has no dimensions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("sim")
SIM, CPU = torch.device("sim:0"), torch.device("cpu")
TRANSFERS = ("aten::_to_copy", "aten::copy_", "aten::_copy_from")


class SimTensor(Tensor):
    """A tensor on `sim:0`; `data_on_host` has its values."""

    data_on_host: Tensor

    @staticmethod
    def __new__(cls, data: Tensor) -> "SimTensor":
        layout = {"strides": data.stride(), "storage_offset": data.storage_offset(), "dtype": data.dtype}
        tensor = Tensor._make_wrapper_subclass(cls, data.size(), **layout, device=SIM)  # type: ignore[attr-defined]
        tensor.data_on_host = data
        return tensor

    def __init__(self, data: Tensor) -> None:
        """All is done in `__new__`."""

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"SimTensor({self.data_on_host})"

    def tolist(self) -> list[Any]:
        return self.data_on_host.tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(function, args, kwargs or {})


def run(function: Any, args: Any, kwargs: Any) -> Any:
    """Runs an operation on what its operands hold; its results are on `sim` if the operands, or `device=`, are."""
    tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
    simulated = [tensor for tensor in tensors if isinstance(tensor, SimTensor)]
    on_cpu = [tensor for tensor in tensors if not isinstance(tensor, SimTensor) and tensor.ndim]
    name = function._schema.name
    if simulated and on_cpu and name not in TRANSFERS:
        raise RuntimeError(f"{name}: expected all tensors to be on one device, but found sim:0 and cpu")
    on_sim = bool(simulated)
    if kwargs.get("device") is not None:
        on_sim = torch.device(kwargs["device"]).type == SIM.type
        kwargs = kwargs | {"device": CPU}
    elif name == "aten::copy_":
        on_sim = isinstance(args[0], SimTensor)
    wrapped = {id(tensor.data_on_host): tensor for tensor in simulated}
    args, kwargs = tree_map(_unwrapped, (args, kwargs))
    results = function(*args, **kwargs)
    if not on_sim:
        return results

    def on_device(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        # What an operation changed in place is returned as the tensor that the caller has.
        return wrapped[id(value)] if id(value) in wrapped else SimTensor(value)

    return tree_map(on_device, results)


def _unwrapped(value: Any) -> Any:
    return value.data_on_host if isinstance(value, SimTensor) else value


# `torch.tensor(values, device="sim")` bypasses Python's dispatch and calls the device's own operations.
_library = torch.library.Library("aten", "IMPL")


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    return SimTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Tensor, destination: Tensor, non_blocking: bool = False) -> Tensor:
    _unwrapped(destination).copy_(_unwrapped(source))
    return destination


_library.impl("empty_strided", _empty_strided, "PrivateUse1")
_library.impl("_copy_from", _copy_from, "PrivateUse1")


class _Simulation(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(function, args, kwargs or {})


@contextmanager
def simulation() -> Iterator[torch.device]:
    """Within this context, `sim:0` is a device like any other."""
    swap = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # `module.to` cannot change the type of parameters
    try:
        with _Simulation():
            yield SIM
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swap)
