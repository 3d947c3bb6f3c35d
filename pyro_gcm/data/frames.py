"""Preprocessing steps that the loaders share: from the columns of a table to a `Dataset`."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_gcm.data.dataset import Dataset


def one_hot(frame: pd.DataFrame) -> pd.DataFrame:
    """Encode every column as 0/1 columns (float64) "column=category", in sorted order."""
    return pd.get_dummies(frame, columns=list(frame), prefix_sep="=", dtype=np.float64)


def min_max(frame: pd.DataFrame) -> pd.DataFrame:
    """Scale every column to [0, 1] by its minimum and maximum over all rows of ``frame``."""
    low, high = frame.min(), frame.max()
    return (frame - low) / (high - low)


def to_tensor(table: pd.DataFrame | pd.Series) -> Tensor:
    """Copy a table to a float64 tensor: [n, columns] for a frame, [n] for a series."""
    return torch.from_numpy(np.array(table, dtype=np.float64, order="C"))


def check_count(name: str, what: str, got: int, expected: int) -> None:
    """Raise a ValueError if a table does not have the expected number of rows, say."""
    if got != expected:
        raise ValueError(f"{name} has {got} {what}, expected {expected}")


def from_frames(
    name: str,
    variant: str,
    x: pd.DataFrame,
    r: pd.DataFrame,
    y: pd.Series,
    *,
    metric: Literal["auc", "accuracy", "rmse"],
    positives: int | None = None,
    x_dim: int | None = None,
    fixed: tuple[Tensor, Tensor] | None = None,
) -> Dataset:
    """Return the data set with these columns, whose names are kept.

    :param metric: metric of the published tables; "rmse" makes the response continuous.
    :param positives: expected number of positive labels, if it is to be checked.
    :param x_dim: expected number of columns of ``x``, if it is to be checked.
    :raises ValueError: if the table has other numbers of positives or columns.
    """
    if x_dim is not None:
        check_count(name, "columns of x", x.shape[1], x_dim)
    if positives is not None:
        check_count(name, "positives", int(y.sum()), positives)
    return Dataset(
        name=name,
        variant=variant,
        x=to_tensor(x),
        r=to_tensor(r),
        y=to_tensor(y),
        x_names=tuple(x.columns),
        r_names=tuple(r.columns),
        response="continuous" if metric == "rmse" else "binary",
        metric=metric,
        fixed=fixed,
    )
