"""From the columns of a table to tensors: the steps that the loaders share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor


def one_hot(frame: pd.DataFrame) -> pd.DataFrame:
    """Encode every column of categories, keeping every level.

    Returns:
        One 0/1 column (float64) for each level, named "column=level", the columns in the order
        of ``frame`` and the levels of each sorted by name.
    """
    encoded = {
        f"{column}={level}": (frame[column] == level).astype(np.float64)
        for column in frame.columns
        for level in sorted(frame[column].unique())
    }
    return pd.DataFrame(encoded, index=frame.index)


def min_max(frame: pd.DataFrame) -> pd.DataFrame:
    """Scale every column to [0, 1] by its smallest and largest value over all rows of ``frame``."""
    low, high = frame.min(), frame.max()
    return (frame - low) / (high - low)


def to_tensor(table: pd.DataFrame | pd.Series) -> Tensor:
    """Copy a table to a float64 tensor: [n, columns] for a frame, [n] for a series."""
    return torch.from_numpy(np.array(table, dtype=np.float64, order="C"))


def check_count(name: str, what: str, got: int, expected: int) -> None:
    """Refuse a table that is not the known one.

    Raises:
        ValueError: ``got`` is not ``expected``.
    """
    if got != expected:
        raise ValueError(f"{name} has {got} {what}, expected {expected}")
