"""Numbers of any kind as tensors, and tensors as what other libraries read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

ArrayLike = Any  # tensor, numpy array, DataFrame, nested list: what torch.as_tensor can take


def as_tensor(name: str, value: ArrayLike, device: torch.device | None = None) -> Tensor:
    """Convert a value to a real tensor in float32 or float64 without gradient.

    Half precision becomes float32, which holds it exactly, and all other numbers become float64.

    :param device: where the tensor is moved to; by default it stays where it is.
    :raises TypeError: if the value is not a real, dense, numeric array.
    """
    if isinstance(value, Tensor):
        tensor = value.detach()
        if tensor.is_inference() and not torch.is_inference_mode_enabled():
            tensor = tensor.clone()  # with which training can go on
    else:
        try:
            tensor = torch.as_tensor(_as_array(value))
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            reason = _no_number(value) or error
            raise TypeError(
                f"{name} must be a numeric array or tensor, got {type(value).__name__}: {reason}"
            ) from error
    if tensor.is_complex():
        raise TypeError(f"{name} must be real, got dtype {tensor.dtype}")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} must be dense, got layout {tensor.layout}")
    if tensor.is_floating_point():
        return tensor.to(device, tensor.dtype if tensor.itemsize > 2 else torch.float32)
    return tensor.to(device, torch.float64)


def without_tensor(value: Any) -> Any:
    """The value, a list in place of a tensor, of which numpy does not read each type."""
    return value.tolist() if isinstance(value, Tensor) else value


def stored(name: str, value: Tensor) -> Tensor:
    """A tensor of its own on the CPU, as a file of safetensors holds it.

    :raises TypeError: for one that it cannot hold.
    """
    if value.layout != torch.strided or value.is_meta or value.is_complex():
        raise TypeError(f"{name} must be a dense, real tensor with values")
    return value.detach().cpu().clone(memory_format=torch.contiguous_format)


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    """An array that torch can convert: writable, without negative strides or Python objects."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        value = np.ma.filled(value.astype(np.float64), math.nan)
    array = np.asarray(value)
    if not array.dtype.isnative or array.dtype == np.longdouble:
        array = array.astype(np.float64)
    # A DataFrame with columns of different types becomes an array of objects.
    if array.dtype == object and all(_is_number(v) for v in array.flat):
        values = [math.nan if _is_na(v) else v for v in array.flat]
        array = np.array(values, dtype=np.float64).reshape(array.shape)
    return np.require(array, requirements=["C_CONTIGUOUS", "WRITEABLE"])


def _is_na(value: Any) -> bool:
    """Whether it is `pandas.NA`."""
    return type(value).__name__ == "NAType"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.bool_) or _is_na(value)


def _no_number(value: Any) -> str:
    """Describe the values that are not numbers; empty if none can be named."""
    array = np.asarray(value, dtype=object)
    strange = [place for place, v in np.ndenumerate(array) if not _is_number(v)]
    if not strange or not array.ndim:
        return ""
    names = getattr(value, "columns", None)
    at = strange[0]
    where = (
        f"column {names[at[1]]!r}" if names is not None and len(at) == 2 else f"entry {list(at)}"
    )
    return (
        f"{where} has {array[at]!r}, which is no number; pyro_gcm.estimators take text, categories "
        "and labels as they are"
    )


def broadcast_shapes(*shapes: Sequence[int]) -> torch.Size:
    """The common shape, as of `torch.broadcast_shapes`, whose first call imports sympy (0.5 s).

    :raises ValueError: if the shapes do not broadcast.
    """
    return torch.Size(np.broadcast_shapes(*shapes))
