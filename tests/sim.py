"""A simulated accelerator, `sim:0`, which shows on any machine what would fail or wait on a GPU.

A tensor on it holds a CPU tensor. As on a GPU, an operation whose operands lie on both `sim` and the CPU fails, unless
the one on the CPU has no dimensions; random numbers need a generator of the device; and a copy to the host that does
not block has arrived only after the host has waited for the device. An index on the CPU fails too: a GPU would copy it,
and the host would wait. What makes the host wait is listed.

Within `simulation()`, `sim` is a device like any other. For whole processes it is a backend that torch loads: `install`
writes its entry point, so that `DEDUCE_DEVICE=sim` works in the scripts as it does with the backend of a vendor.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

CPU = torch.device("cpu")
COPIES = ("aten::_to_copy", "aten::copy_", "aten::_copy_from")
# Their result's shape or value is a matter of the data, which the host has to wait for.
READS = {
    f"aten::{name}"
    for name in (
        "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal",
        "bincount", "repeat_interleave", "linalg_eig", "_linalg_eigh", "_linalg_svd", "linalg_cholesky",
    )
}  # fmt: skip


@dataclass
class Traffic:
    """What went between host and device; each entry is the name of an operation."""

    waits: list[str] = field(default_factory=list)  # of the host for the device
    asynchronous: list[str] = field(default_factory=list)  # copies for which nobody waited
    arriving: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # host tensors, and what they will hold

    def wait(self, name: str) -> None:
        self.waits.append(name)
        self.deliver()

    def deliver(self) -> None:
        for received, sent in self.arriving:
            received.copy_(sent)
        self.arriving.clear()

    def clear(self) -> None:
        self.waits.clear()
        self.asynchronous.clear()


traffic = Traffic()


class Backend(_DummyBackendModule):  # type: ignore[misc]  # untyped
    """What torch and the library ask of a device's module, `torch.sim`."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def synchronize(self, device: Any = None) -> None:
        traffic.wait("synchronize")


_setup_privateuseone_for_python_backend("sim", Backend())
SIM = torch.device("sim:0")


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

    def __format__(self, specification: str) -> str:  # torch has one for its own class only
        return format(self.item(), specification) if not self.ndim else repr(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return SimTensor, (self.data_on_host,)

    def tolist(self) -> list[Any]:
        traffic.wait("tolist")
        return self.data_on_host.tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(function, args, kwargs or {})


# A checkpoint that is read with `map_location=sim` has the tensors that these hold, which stay where they are.
torch.serialization.add_safe_globals([SimTensor])
torch.serialization.register_package(
    0, lambda storage: None, lambda storage, location: storage if location.startswith("sim") else None
)


def run(function: Any, args: Any, kwargs: Any) -> Any:
    """Runs an operation on what its operands hold; its results are on `sim` if the operands, or `device=`, are."""
    operands = tree_flatten((args, kwargs))[0]
    simulated = [value for value in operands if isinstance(value, SimTensor)]
    asked = kwargs.get("device")
    if not simulated and (asked is None or torch.device(asked).type == "cpu"):
        return function(*args, **kwargs)
    name = function._schema.name
    on_cpu = [value for value in operands if isinstance(value, Tensor) and not isinstance(value, SimTensor)]
    if simulated and name not in COPIES and any(tensor.ndim for tensor in on_cpu):
        raise RuntimeError(f"{name}: expected all tensors to be on one device, but found sim:0 and cpu")
    on_sim = bool(simulated)
    if asked is not None:
        on_sim = torch.device(asked).type == SIM.type
        kwargs = kwargs | {"device": CPU}
    elif name == "aten::copy_":
        on_sim = isinstance(args[0], SimTensor)
    if on_sim and any(isinstance(value, torch.Generator) and value.device == CPU for value in operands):
        raise RuntimeError(f"{name}: expected a generator of sim, but found one of cpu")
    asynchronous = name in COPIES and _copied(name, args, kwargs, on_sim, bool(simulated))
    if name in READS or (name in ("aten::index", "aten::index_put_", "aten::_index_put_impl_") and _masked(args)):
        traffic.wait(name)
    wrapped = {id(tensor.data_on_host): tensor for tensor in simulated}
    args, kwargs = tree_map(_unwrapped, (args, kwargs))
    results = function(*args, **kwargs)
    if not on_sim:
        return _under_way(results) if asynchronous else results

    def on_device(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        # What an operation changed in place is returned as the tensor that the caller has.
        return wrapped[id(value)] if id(value) in wrapped else SimTensor(value)

    return tree_map(on_device, results)


def _copied(name: str, args: Any, kwargs: Any, to_sim: bool, from_sim: bool) -> bool:
    """Lists a copy between host and device; whether nobody waits for it."""
    source = args[1] if name == "aten::copy_" else args[0]
    if to_sim == isinstance(source, SimTensor):
        return False
    direction = "to the device" if to_sim else "to the host"
    if kwargs.get("non_blocking") or (name == "aten::copy_" and args[2:3] == (True,)):
        traffic.asynchronous.append(direction)
        return True
    if source.ndim or not to_sim:  # a number goes with the call
        traffic.wait(direction)
    return False


def _under_way(result: Tensor) -> Tensor:
    received = torch.full_like(result, -1 if result.dtype != torch.bool else True)
    traffic.arriving.append((received, result.clone()))
    return received


def _masked(args: Any) -> bool:
    """Whether an index is a mask, whose rows have to be counted; setting these to one number needs no count."""
    masks = any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return masks and not (len(args) > 2 and args[2].numel() == 1)


def _unwrapped(value: Any) -> Any:
    return value.data_on_host if isinstance(value, SimTensor) else value


# `torch.tensor(values, device="sim")` bypasses Python's dispatch and calls the device's own operations.
_library = torch.library.Library("aten", "IMPL")


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    return SimTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Tensor, destination: Tensor, non_blocking: bool = False) -> Tensor:
    _copied("aten::_copy_from", (source, destination), {"non_blocking": non_blocking}, True, False)
    _unwrapped(destination).copy_(_unwrapped(source))
    return destination


_library.impl("empty_strided", _empty_strided, "PrivateUse1")
_library.impl("_copy_from", _copy_from, "PrivateUse1")
# Within `torch.autocast`, products of matrices and convolutions are of bfloat16; other operations go on to the device.
_any_operation = torch.library.Library("_", "IMPL")
_any_operation.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)


def _reduced(operation: Any) -> Any:
    def call(*arguments: Any) -> Any:
        floats = {torch.float32: torch.bfloat16}
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            cast = [a.to(floats.get(a.dtype, a.dtype)) if isinstance(a, Tensor) else a for a in arguments]
            return operation(*cast)

    return call


for _name in ("linear", "conv2d", "conv_transpose2d.input", "matmul", "baddbmm"):
    _packet, _, _overload = _name.partition(".")
    _operation = getattr(getattr(torch.ops.aten, _packet), _overload or "default")
    _library.impl(_name, _reduced(_operation), "AutocastPrivateUse1")


class _Simulation(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(function, args, kwargs or {})


@contextmanager
def simulation() -> Iterator[Traffic]:
    """Within this context, `sim:0` is a device like any other; gives what goes to it and comes from it."""
    swap = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # `module.to` cannot change the type of parameters
    traffic.clear()
    try:
        with _Simulation():
            yield traffic
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swap)


def load() -> None:
    """The entry point: the simulation lasts as long as the process."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    _Simulation().__enter__()


def install(folder: Path) -> dict[str, str]:
    """Writes what makes the device a backend of torch; the environment in which scripts run on it."""
    about = folder / "sim-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sim\nVersion: 0\n")
    (about / "entry_points.txt").write_text(f"[torch.backends]\nsim = {__name__}:load\n")
    places = [str(folder), str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"DEDUCE_DEVICE": "sim", "PYTHONPATH": os.pathsep.join(places)}
