"""Missing values as inputs of a network."""

from __future__ import annotations

import torch
from torch import Tensor


def with_missing_indicators(columns: Tensor) -> Tensor:
    """Replace NaN by 0 and append one missing-value indicator per column.

    Zero is the mean of a standardised column; the indicator (1 if the value is missing, else 0)
    distinguishes a missing value from an observed 0.

    :param columns: values, NaN where they are missing, [..., d].
    :returns: [..., 2 d], in the dtype of `columns`.

    >>> with_missing_indicators(torch.tensor([[1.5, float("nan")]]))
    tensor([[1.5000, 0.0000, 0.0000, 1.0000]])
    """
    missing = columns.isnan()
    return torch.cat([columns.masked_fill(missing, 0.0), missing.to(columns.dtype)], dim=-1)
