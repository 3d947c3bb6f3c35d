"""Missing values as inputs of a network."""

from __future__ import annotations

import torch
from torch import Tensor


def with_missing(columns: Tensor) -> Tensor:
    """`columns` with 0 in place of NaN, followed by an indicator a column, 1 where it was missing.

    The zero is the mean of a standardised column; the indicator tells it from a value that is 0.

    :param columns: values with NaN where they are missing, [..., d].
    :return: [..., 2 d], in the dtype of `columns`.

    >>> with_missing(torch.tensor([[1.5, float("nan")]]))
    tensor([[1.5000, 0.0000, 0.0000, 1.0000]])
    """
    missing = columns.isnan()
    return torch.cat([columns.masked_fill(missing, 0.0), missing.to(columns.dtype)], dim=-1)
