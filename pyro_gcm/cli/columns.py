"""Columns by name: lists of them in options, their types, and what they are for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

from pyro_gcm._utils.lists import parts_of
from pyro_gcm.cli.errors import WrongUse, instead

if TYPE_CHECKING:
    import pandas as pd


def column_of(option: str, name: str, known: Sequence[str], where: str) -> str:
    """Return a name that is among the known ones.

    :param where: what has these columns.
    :raises WrongUse: with the closest name, for another one.
    """
    if name not in known:
        raise WrongUse(f"{option}: {where} has no column {name!r}{instead(name, known)}")
    return name


def check_once(where: str, names: Iterable[str]) -> None:
    """Refuse names that are there twice.

    :param where: what has these columns.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise WrongUse(f"{where} has more than one column {min(twice)!r}")


def columns_of(option: str, text: str | None, known: Sequence[str], where: str) -> list[str]:
    """The columns that a list names."""
    if text is None:
        return []
    names = parts_of(text, known)
    if not names:
        raise WrongUse(f"{option} must name columns, such as a,b, got {text!r}")
    return [column_of(option, name, known, where) for name in names]


def type_of(series: pd.Series[Any]) -> str:
    """The type of a column, in words."""
    import pandas as pd

    kinds, dtype = pd.api.types, series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        kind = "ordered category" if dtype.ordered else "category"
        return f"{kind}, {len(dtype.categories)} levels"
    if kinds.is_bool_dtype(dtype):
        return "boolean"
    if kinds.is_integer_dtype(dtype):
        return "whole number"
    if kinds.is_numeric_dtype(dtype):
        return "number"
    if kinds.is_datetime64_any_dtype(dtype) or kinds.is_timedelta64_dtype(dtype):
        return "date"
    given = series.dropna()
    if not len(given):
        return "empty"
    if given.map(lambda value: isinstance(value, bool)).all():
        return "boolean"
    if given.map(lambda value: isinstance(value, Real | Decimal)).all():
        return "number"
    if given.map(lambda value: isinstance(value, str)).all():
        count = given.nunique()
        return f"text, {count} {'value' if count == 1 else 'values'}"
    return f"other ({dtype})"


def can_have_direction(series: pd.Series[Any]) -> bool:
    """Whether predictions can be monotone in a column."""
    kind = type_of(series)
    return kind in ("boolean", "whole number", "number", "empty") or kind.startswith("ordered")


def check_finite(frame: pd.DataFrame, where: str) -> None:
    """Refuse infinite numbers, with the first one."""
    import numpy as np

    for name in frame.columns:
        if type_of(frame[name]) == "number":
            infinite = np.isinf(frame[name].to_numpy(dtype=np.float64))
            if infinite.any():
                raise WrongUse(
                    f"DATA {where}: column {name!r} must be finite or missing, and is infinite in "
                    f"row {int(infinite.argmax()) + 1}"
                )


def letters_in_order(values: pd.Series[Any], written: pd.Series[Any]) -> list[str]:
    """The different fields of a column of numbers or booleans, in the order of their values.

    :param written: the fields, as text where they are not written as Python writes the values.
    :returns: none if they are, and where two fields have the same value.
    """
    import pandas as pd

    if type_of(values).startswith("text") or not type_of(written).startswith("text"):
        return []
    pairs = pd.DataFrame({"value": values, "field": written}).dropna().drop_duplicates()
    pairs = pairs.sort_values("value")
    return [] if pairs["value"].duplicated().any() else pairs["field"].tolist()


def text_columns(encodings: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The columns that were text when a model was fitted."""
    pairs = zip(names, encodings, strict=True)
    return [name for name, code in pairs if any(isinstance(level, str) for level in code.levels)]
