"""A second device that needs no GPU: CPU tensors that report another device.

Inside `emulated()` that device follows the rules of CUDA that concern where tensors are:
operations on tensors of both devices raise an error, except for copies, indexing with CPU indices
and CPU tensors without dimensions; conversion to NumPy needs `.cpu()`; a CPU generator cannot draw
on the device; a tensor is made on the CPU unless its device is given. This finds tensors that are
made on the wrong device and missing transfers.

It does not emulate kernels, rounding, speed, streams, memory limits, or the device's own random
generator: draws on the device use the CPU's default generator. Code that asks for the device type
"cuda" sees the type "gpu" instead.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
import torch.utils.backend_registration as registration
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

_NAME = "gpu"
#: Whether this version of torch can register a device from Python.
AVAILABLE = hasattr(registration, "_setup_privateuseone_for_python_backend")
_COPIES = ("aten::_to_copy", "aten::copy_")
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")


class EmulatedTensor(Tensor):
    """A tensor on the emulated device; its values are in the CPU tensor `host`."""

    host: Tensor

    @staticmethod
    def __new__(cls, host: Tensor) -> EmulatedTensor:
        """Wrap a CPU tensor."""
        tensor: EmulatedTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            layout=host.layout,
            device=torch.device(_NAME, 0),
            requires_grad=host.requires_grad,
        )
        tensor.host = host
        return tensor

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"EmulatedTensor({self.host})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.host.__reduce_ex__(protocol)  # as `torch.load(..., map_location="cpu")` reads

    def numpy(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse the conversion, as CUDA tensors do."""
        raise TypeError(f"a tensor on {self.device} has no numpy array: use .cpu() first")

    __array__ = numpy

    def tolist(self) -> Any:
        """Numbers, which CUDA tensors give too."""
        return self.host.tolist()

    def as_subclass(self, cls: Any) -> Any:
        """The values as another subclass, such as Pyro's, which keeps the device itself."""
        return self.host.as_subclass(cls)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})


class _EmulationMode(TorchDispatchMode):
    """Sees operations without a tensor argument too, such as `torch.zeros(3, device=...)`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})


@contextmanager
def emulated() -> Iterator[torch.device]:
    """The emulated device, which accepts operations inside this context."""
    register()
    before = torch.__future__.get_swap_module_params_on_conversion()
    # `Module.to` keeps the identity of parameters, as it does between the CPU and CUDA.
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with _EmulationMode():
            yield torch.device(_NAME, 0)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


@functools.cache
def register() -> torch.library.Library:
    """Register the device with torch for the rest of the process.

    To be called before the first backward pass, in which torch counts the devices for good.
    """

    class Backend(registration._DummyBackendModule):
        def get_rng_state(self, device: Any = None) -> Tensor:
            return torch.get_rng_state()

        def set_rng_state(self, state: Tensor, device: Any = None) -> None:
            """Nothing: whoever sets this state sets that of the CPU as well."""

    def empty_strided(size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Tensor:
        return EmulatedTensor(torch.empty_strided(size, stride, dtype=dtype))

    def copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
        _host(target).copy_(_host(source))
        return target

    registration._setup_privateuseone_for_python_backend(_NAME, backend_module=Backend())
    # Code of torch in C++ that `_EmulationMode` does not see.
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty_strided", empty_strided, "PrivateUse1")
    library.impl("_copy_from", copy_from, "PrivateUse1")
    return library  # which has to be kept: it takes its operations with it


def _dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Check the devices, run an operation on the CPU, and give its result the right device."""
    name, device = func._schema.name, kwargs.get("device")
    # On CUDA indices may be on the CPU.
    given = args[:1] + args[2:] if name in _INDEXING else (*args, *kwargs.values())
    wrappers = {id(t.host): t for t in _tensors(given) if isinstance(t, EmulatedTensor)}
    if name in _INDEXING and not wrappers:
        given = args
    tensors = list(_tensors(given))
    away = any(isinstance(t, EmulatedTensor) for t in tensors)
    alien = any(t.dim() > 0 and not isinstance(t, EmulatedTensor) for t in tensors)
    if away and alien and name not in _COPIES:
        found = ", ".join(f"{t.device} {tuple(t.shape)}" for t in tensors)
        raise RuntimeError(f"{name} expects all tensors on the same device, got {found}")
    if device is not None:
        away = torch.device(device).type == _NAME
    elif name == "aten::copy_":
        away = isinstance(args[0], EmulatedTensor)
    if away and kwargs.get("generator") is not None:
        raise RuntimeError(f"{name} on the device got a generator of the CPU")
    if wrappers and torch.Tag.inplace_view in func.tags:
        with no_dispatch():  # such as `squeeze_`: the shape of the wrapper changes, too
            func(*args, **kwargs)
    options = {key: _host(value) for key, value in kwargs.items()}
    if away and device is not None:
        options["device"] = torch.device("cpu")
    result = func(*map(_host, args), **options)
    return _wrapped(result, wrappers) if away else result


def _tensors(values: Any) -> Iterator[Tensor]:
    """The tensors among the arguments of an operation, also those in lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _host(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_host(v) for v in value]
    return value.host if isinstance(value, EmulatedTensor) else value


def _wrapped(result: Any, wrappers: dict[int, EmulatedTensor]) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_wrapped(v, wrappers) for v in result)
    if not isinstance(result, Tensor):
        return result
    # Operations in place, and those with `out=`, return their argument.
    wrapper = wrappers.get(id(result))
    return EmulatedTensor(result) if wrapper is None else wrapper
