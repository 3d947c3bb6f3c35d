"""What every loader returns: inputs, monotone inputs, response, and how to split them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import pandas as pd
import torch
from torch import Tensor

from pyro_gcm._validation import one_of, positive_int

Response = Literal["binary", "continuous"]
Metric = Literal["auc", "accuracy", "rmse"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table for a monotone model p(y | x, r): all rows, in the order of the source file.

    Every column of ``r`` is oriented so that ``y`` is expected to rise with it. A column whose
    effect is decreasing in the source is stored with its sign flipped, and its name says so:
    "-weight" is minus the weight.

    Attributes:
        name: The data set, as passed to :func:`pyro_gcm.data.load`.
        variant: The recipe, as passed to :func:`pyro_gcm.data.load`.
        x: Free inputs, [n, x_dim], float64. A category is one 0/1 column for each level.
        r: Monotone inputs (the revenues), [n, r_dim], float64, each increasing in ``y``.
        y: Response, [n], float64: 0 or 1 where binary, in its own units where continuous.
        x_names: Names of the columns of ``x``; "race=White" for one level of a category.
        r_names: Names of the columns of ``r``, with a leading "-" where the sign is flipped.
        response: "binary" or "continuous".
        metric: What the published tables report: "auc", "accuracy" or "rmse" (in units of y).
        fixed: Train and test rows of the split that the literature shares, or None. Read it
            through :meth:`fixed_split`.

    Raises:
        TypeError: x, r or y that are no tensors, and names that are one text.
        ValueError: Shapes, names and values that do not fit together.
    """

    name: str
    variant: str
    x: Tensor = field(repr=False)
    r: Tensor = field(repr=False)
    y: Tensor = field(repr=False)
    x_names: tuple[str, ...] = field(repr=False)
    r_names: tuple[str, ...]
    response: Response
    metric: Metric
    fixed: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse a table whose parts do not belong together."""
        one_of("response", self.response, get_args(Response))
        one_of("metric", self.metric, get_args(Metric))
        for part in ("x", "r", "y"):
            if not isinstance(getattr(self, part), Tensor):
                raise TypeError(
                    f"{part} must be a tensor, got {type(getattr(self, part)).__name__}"
                )
        for part in ("x_names", "r_names"):
            if isinstance(getattr(self, part), str):
                raise TypeError(
                    f"{part} must be a tuple of names, got the text {getattr(self, part)!r}"
                )
        columns = [*self.x_names, *self.r_names]
        if len(set(columns)) < len(columns):
            twice = sorted({name for name in columns if columns.count(name) > 1})
            raise ValueError(f"x_names and r_names must differ, got {twice} more than once")
        rows = len(self.y)
        wanted = {"x": (rows, self.x_dim), "r": (rows, self.r_dim), "y": (rows,)}
        for part, shape in wanted.items():
            value: Tensor = getattr(self, part)
            if tuple(value.shape) != shape:
                raise ValueError(f"{part} has shape {tuple(value.shape)}, expected {shape}")
            if not torch.isfinite(value).all():
                raise ValueError(f"{part} holds NaN or infinite values, expected finite ones")
        if self.response == "binary" and not ((self.y == 0) | (self.y == 1)).all():
            raise ValueError("y holds other values than 0 and 1, response is 'binary'")
        if self.fixed is not None:
            numbers = torch.cat(self.fixed)
            if (
                len(numbers.unique()) < len(numbers)
                or not ((numbers >= 0) & (numbers < rows)).all()
            ):
                raise ValueError(f"fixed must hold different row numbers from 0 to {rows - 1}")

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.y)

    @property
    def x_dim(self) -> int:
        """Number of free inputs."""
        return len(self.x_names)

    @property
    def r_dim(self) -> int:
        """Number of monotone inputs."""
        return len(self.r_names)

    def split(self, seed: int) -> tuple[Tensor, Tensor]:
        """Draw a random 4:1 split.

        The same seed gives the same rows for every model, so that methods can be compared in
        pairs. The global random state is neither read nor changed.

        Args:
            seed: Seed of the permutation.

        Returns:
            Row numbers of train [n * 4 // 5] and test [the rest], int64.

        Raises:
            ValueError: A seed that is no integer of at least 0.
        """
        generator = torch.Generator().manual_seed(positive_int("seed", seed, minimum=0))
        order = torch.randperm(len(self), generator=generator)
        size = len(self) * 4 // 5
        return order[:size], order[size:]

    def fixed_split(self) -> tuple[Tensor, Tensor]:
        """Return the one split that published numbers of this data set share.

        COMPAS has 4,937 and 1,235 rows, Auto MPG 314 and 78, Blog Feedback 47,287 and 7,027 (in
        order of time), the loans of "loan" 418,697 and 70,212. Numbers on a fixed split and on
        random splits differ by more than the methods do: never put them in one table.

        Returns:
            Row numbers of train and test, int64.

        Raises:
            ValueError: The data set has none, or this is a subset.
        """
        if self.fixed is None:
            raise ValueError(
                f"{self.name} ({len(self)} rows, variant {self.variant!r}) has no fixed split, "
                "use split(seed)"
            )
        train, test = self.fixed
        return train.clone(), test.clone()

    def frame(self) -> pd.DataFrame:
        """Return all columns as a table: those of ``x``, those of ``r``, and "y"."""
        columns = [*self.x_names, *self.r_names, "y"]
        values = torch.cat([self.x, self.r, self.y.unsqueeze(1)], dim=1)
        return pd.DataFrame(values.numpy(), columns=columns)

    def subset(self, index: Tensor) -> Dataset:
        """Return the rows ``index`` (row numbers, or a mask [n]) as a data set of their own."""
        return replace(self, x=self.x[index], r=self.r[index], y=self.y[index], fixed=None)
