"""A table as an estimator reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyro_gcm._table import read_table

if TYPE_CHECKING:
    import pandas as pd


def as_read(estimator: Any, X: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns with a direction have the numbers, or the levels, of the estimator.

    A file may have neither: levels of a category come in the order of their letters from some and
    as plain text from others, and a column of true and false with gaps comes as objects.

    :param estimator: fitted.
    :param X: the columns of the estimator, in their order.
    """
    import pandas as pd

    found, codes = X.copy(), estimator.encoding_.columns
    for name, column, code in zip(X.columns, read_table(X), codes, strict=True):
        if code.sign and code.kind == "number":
            found[name] = code.numbers(column)
        elif code.sign:
            found[name] = pd.Categorical(column.as_labels(), code.levels, ordered=True)
    return found
