"""Columns of Arrow as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch


def dtype_of(kind: Any) -> torch.dtype | None:
    """The dtype that holds the numbers of an Arrow type, or None if it has no numbers."""
    from pyarrow import types

    if types.is_float16(kind) or types.is_float32(kind):
        return torch.float32
    others = (types.is_float64, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return torch.float64 if any(is_one(kind) for is_one in others) else None


def numbers(array: Any) -> npt.NDArray[np.floating[Any]]:
    """The values [n] of an Arrow array of numbers, NaN where one is null."""
    import pyarrow as pa

    if not pa.types.is_floating(array.type):
        array = array.cast(pa.float64(), safe=False)
    values: npt.NDArray[np.floating[Any]] = array.to_numpy(zero_copy_only=False)
    return values
