"""Data sets by name, and what `data.load` returns: inputs, monotone inputs, response and splits."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.validation import one_of, seed_of

if TYPE_CHECKING:
    import pandas as pd

#: By name: `files`, with the options of `pandas.read_csv` as `read`; columns of `x` and `r`, and
#: `y`; `directions` of the columns of tables.
SETS: dict[str, Any] = json.loads(Path(__file__).with_name("sets.json").read_text(encoding="utf-8"))
#: Names of the data sets.
NAMES = tuple(sorted(name for name, about in SETS.items() if "metric" in about))


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table for a monotone model p(y | x, r), with all rows in the order of the source file.

    Every column of ``r`` is oriented so that ``y`` is expected to increase with it: "-weight" is
    minus the weight.

    :param name: the data set; ``variant``: its variant, both as in :func:`pyro_gcm.data.load`.
    :param x: free inputs, [n, x_dim], float64. Each category is one 0/1 column.
    :param r: monotone inputs (the revenues), [n, r_dim], float64.
    :param y: response, [n], float64: 0 or 1 if binary, in its own units if continuous.
    :param x_names: names of the columns of ``x``, such as "race=White" for a category.
    :param r_names: names of the columns of ``r``, with a leading "-" if the sign is flipped.
    :param response: "binary" or "continuous".
    :param metric: the metric of the published tables: "auc", "accuracy" or "rmse" (in units of y).
    :param fixed: training and test rows of the split that the literature shares, or None.
    """

    name: str
    variant: str
    x: Tensor = field(repr=False)
    r: Tensor = field(repr=False)
    y: Tensor = field(repr=False)
    x_names: tuple[str, ...] = field(repr=False)
    r_names: tuple[str, ...]
    response: Literal["binary", "continuous"]
    metric: Literal["auc", "accuracy", "rmse"]
    fixed: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def __len__(self) -> int:
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

        The same seed gives the same rows to every model, so that methods can be compared in pairs.

        :param seed: seed of the permutation; the global random state is neither read nor changed.
        :returns: row indices of the training part [n * 4 // 5] and the test part [the rest], int64.
        :raises ValueError: if the seed is not an integer of at least 0.
        """
        generator = torch.Generator().manual_seed(seed_of(seed))
        order = torch.randperm(len(self), generator=generator)
        size = len(self) * 4 // 5
        return order[:size], order[size:]

    def fixed_split(self) -> tuple[Tensor, Tensor]:
        """Return the split that the published numbers of this data set share.

        Numbers on it and on random splits differ by more than the methods do.

        :returns: row indices of the training part and the test part, int64.
        :raises ValueError: if the data set has no fixed split.
        """
        if self.fixed is None:
            raise ValueError(
                f"{self.name} ({len(self)} rows, variant {self.variant!r}) has no fixed split, "
                "use split(seed)"
            )
        train, test = self.fixed
        return train.clone(), test.clone()

    def frame(self) -> pd.DataFrame:
        """Return all columns as a data frame: those of ``x``, those of ``r``, and "y"."""
        import pandas as pd

        values = torch.cat([self.x, self.r, self.y.unsqueeze(1)], dim=1)
        return pd.DataFrame(values.numpy(), columns=[*self.x_names, *self.r_names, "y"])


def load(name: str, variant: str = "default") -> Dataset:
    """Load a benchmark data set.

    The variant "default" has the correct labels, and columns in their raw units (years, dollars,
    counts, 0/1 for a category), which the models standardise themselves. The variant "published"
    reproduces the preprocessing behind the published tables, including its scaling and its errors;
    use it only to compare with those tables. ``datasheets.md``, beside this module, describes the
    source, the columns, the size and the known problems of every data set.

    If the environment variable PYRO_GCM_DATA is set, raw files are read from the folder that it
    names, either as they are or gzipped ("adult/adult.data.gz"). Otherwise they are downloaded once
    from their public source and cached. Their SHA-256 digests are verified at every call, except
    for "loan", whose digests are not known: its loader was written from a description of the files
    and has not been run on them. "loan_psds" is a stand-in with the same columns but other loans.

    :param name: one of ``pyro_gcm.data.NAMES``: "adult", "auto_mpg", "blog", "compas", "diabetes",
        "loan" or "loan_psds".
    :param variant: "default" or "published".
    :returns: a :class:`Dataset` with all rows, training and test.
    :raises ValueError: if the name or the variant is unknown, or a raw file is not as expected.
    :raises FileNotFoundError: if PYRO_GCM_DATA is set and its folder lacks a file.
    :raises OSError: if a download fails.

    Example::

        from pyro_gcm import data

        adult = data.load("adult")
        train, test = adult.split(seed=0)
        x, r, y = adult.x[train], adult.r[train], adult.y[train]
    """
    from pyro_gcm.data.sets import build

    one_of("name", name, NAMES)
    one_of("variant", variant, ["default", "published"])
    return build(name, variant)


def one_hot(frame: pd.DataFrame) -> pd.DataFrame:
    """Encode every column as 0/1 columns (float64) "column=category", in sorted order."""
    import pandas as pd

    return pd.get_dummies(frame, columns=list(frame), prefix_sep="=", dtype=np.float64)


def min_max(frame: pd.DataFrame) -> pd.DataFrame:
    """Scale every column to [0, 1] by its minimum and maximum over all rows of ``frame``."""
    low, high = frame.min(), frame.max()
    return (frame - low) / (high - low)


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
    fixed: tuple[Tensor, Tensor] | None = None,
) -> Dataset:
    """Return the data set with these columns, whose names are kept.

    :param metric: metric of the published tables; "rmse" makes the response continuous.
    """
    return Dataset(
        name=name,
        variant=variant,
        x=_tensor(x),
        r=_tensor(r),
        y=_tensor(y),
        x_names=tuple(x.columns),
        r_names=tuple(r.columns),
        response="continuous" if metric == "rmse" else "binary",
        metric=metric,
        fixed=fixed,
    )


def _tensor(table: pd.DataFrame | pd.Series) -> Tensor:
    return torch.from_numpy(np.array(table, dtype=np.float64, order="C"))
