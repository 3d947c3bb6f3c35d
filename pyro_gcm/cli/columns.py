"""Columns: named in options, of which type, and for what."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from pyro_gcm.cli.errors import WrongUse, instead, listed
from pyro_gcm.cli.forms import strange_form
from pyro_gcm.cli.lists import as_argument, parts_of
from pyro_gcm.cli.reading import ABSENT, Reading

#: Signs of the roles with a direction.
SIGNS = {"increasing": 1, "decreasing": -1}
#: Types of columns in words, by what pandas calls their values; text and categories have more.
_TYPES = {
    **{"boolean": "boolean", "integer": "whole number", "empty": "empty"},
    **dict.fromkeys(("floating", "mixed-integer-float", "decimal"), "number"),
    **dict.fromkeys(("datetime64", "datetime", "date", "timedelta64", "timedelta", "time"), "date"),
}


def column_of(option: str, name: str, known: Sequence[str], where: str) -> str:
    """Return a name that is among the known ones.

    :param where: what has these columns.
    :raises WrongUse: with the closest name, for another one.
    """
    if name not in known:
        raise WrongUse(f"{option}: {where} has no column {name!r}{instead(name, known)}")
    return name


def columns_of(
    option: str, text: str | Sequence[str] | None, known: Sequence[str], where: str
) -> list[str]:
    """The columns that a list names."""
    if not text:
        return []
    names = parts_of(text, known)
    if not names:
        raise WrongUse(f"{option} must name columns, such as a,b, got {text!r}")
    return [column_of(option, name, known, where) for name in names]


def type_of(series: pd.Series[Any]) -> str:
    """The type of a column, in words."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        kind = "ordered category" if series.dtype.ordered else "category"
        return f"{kind}, {len(series.dtype.categories)} levels"
    found = pd.api.types.infer_dtype(series, skipna=True)
    if found != "string":
        return _TYPES.get(found, f"other ({series.dtype})")
    count = series.nunique()
    return f"text, {count} {'value' if count == 1 else 'values'}" if count else "empty"


def roles_of(
    frame: pd.DataFrame,
    where: str,
    reading: Reading | None,
    text: Collection[str],
    named: Mapping[str, str | Sequence[str] | None],
) -> dict[str, str]:
    """The roles that options give to the columns of a table, in its order; the others are free.

    :param where: what has these columns.
    :param reading: how their fields were read, if they had no types.
    :param text: columns that are text in any case.
    :param named: by the name of an option, the columns that it names, or None.
    :raises WrongUse: for unknown columns, columns that are named twice, and those of a type that
        cannot have the role.
    """
    known = [str(name) for name in frame.columns]
    roles: dict[str, str] = {}
    for option, names in named.items():
        single = option in ("target", "event", "group")
        listed_names = [str(names)] if single and names is not None else names
        for name in columns_of(f"--{option}", listed_names, known, where):
            if roles.get(name) == option:
                raise WrongUse(f"--{option} names {name!r} twice")
            if name in roles:
                raise WrongUse(f"--{roles[name]} and --{option} both name {name!r}")
            roles[name] = option
    for name in known:
        option, kind = roles.get(name, "free"), type_of(frame[name])
        if reading is not None and option != "ignore" and name not in text:
            fault = strange_form(frame[name], reading) if kind.startswith("text") else ""
            if fault:
                raise WrongUse(f"DATA {where}: column {name!r} {fault}")
        if option in SIGNS and kind.startswith(("text", "category", "date", "other")):
            raise WrongUse(
                f"--{option} {name!r} must have numbers, booleans or an ordered category, and has "
                f"{kind}, such as {frame[name].dropna().tolist()[0]!r}"
            )
    return {name: roles.get(name, "free") for name in known}


def doubt_of(column: pd.Series[Any]) -> str:
    """The doubt about a column that is read: an index, or missing values that are text."""
    name = str(column.name)
    if re.fullmatch(r"Unnamed: \d+", name):
        return (
            "has the name that pandas gives to an index without one: "
            f"--ignore {as_argument(name)} leaves it out"
        )
    fields = column.dropna().unique() if type_of(column).startswith("text") else ()
    absent = [field for field in fields if field.strip().lower() in ABSENT]
    if not absent:
        return ""
    return (
        f"has the text {listed(absent)}: --missing {as_argument(*absent)} if it has no value there"
    )
