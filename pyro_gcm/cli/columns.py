"""Columns: named in options, of which type, for what, and numbers that are read as text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from pyro_gcm._utils.names import known_name
from pyro_gcm.cli.options import as_argument, parts_of
from pyro_gcm.cli.output import WrongUse, instead, listed
from pyro_gcm.cli.tables import ABSENT, Reading

#: Signs of the roles with a direction.
SIGNS = {"increasing": 1, "decreasing": -1}
#: Types of columns in words, by what pandas calls their values; text and categories have more.
_TYPES = {
    **{"boolean": "boolean", "integer": "whole number", "empty": "empty"},
    **dict.fromkeys(("floating", "mixed-integer-float", "decimal"), "number"),
    **dict.fromkeys(("datetime64", "datetime", "date", "timedelta64", "timedelta", "time"), "date"),
}
_UNIT = "([%\u2030$£¢¥\u20a0-\u20cf]|USD|EUR|GBP|CHF|JPY)?"
#: A number with marks, a sign, a unit and brackets as people write them, one blank between.
_NUMBER = re.compile(
    rf"\(? ?[-+\u2212]? ?{_UNIT} ?[-+\u2212]? ?"
    r"((\d{1,3}([.,'’ ]\d{3})+|\d{1,2}(,\d\d)+,\d{3}|\d+)([.,]\d*)?|[.,]\d+)(e[-+]?\d+)?"
    rf" ?{_UNIT} ?[-+\u2212]? ?\)?",
    re.ASCII | re.IGNORECASE,
)
_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_CLOCK = r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( ?[ap]m)?"
_DATE = re.compile(
    rf"((\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](\d{{4}}|\d\d)"
    rf"|\d{{4}}-\d\d|\d{{1,2}}[-. ]+{_MONTH}[-., ]+\d{{2,4}}|{_MONTH} \d{{1,2}}, ?\d{{4}})"
    rf"([T ]+{_CLOCK} ?(Z|UTC|[-+]\d\d:?\d\d)?)?|{_CLOCK}|-?\d+ days.*)",
    re.ASCII | re.IGNORECASE,
)
#: Marks of the fraction and of groups, as they come together.
_MARKS = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"))
#: Fields that a message names, at most.
_MOST = 3
#: Different numbers that are read in each way to find the right one, about.
_LOOKED_AT = 2000
#: So many numbers or dates to one word make a column of numbers.
_TO_ONE = 9


def column_of(option: str, name: str, known: Sequence[Any], where: str) -> str:
    """Return a name that is among the known ones.

    :param where: what has these columns.
    :raises WrongUse: with the closest name, for another one.
    """
    if (found := known_name(name, known)) not in known:
        raise WrongUse(f"{option}: {where} has no column {name!r}{instead(name, known)}")
    return found


def columns_of(
    option: str, text: str | Sequence[str] | None, known: Sequence[Any], where: str
) -> list[str]:
    """The columns that a list names.

    :raises WrongUse: for unknown ones, and for a list of none, as of a shell's empty variable.
    """
    names = parts_of(text or (), known)
    if text and not names:
        raise WrongUse(f"{option} must name columns, such as a,b, got {text!r}")
    return [column_of(option, name, known, where) for name in names]


def by_class(
    named: Mapping[str, Sequence[str] | None], known: Sequence[str]
) -> tuple[dict[str, list[str] | None], dict[str, dict[str, int]]]:
    """Columns with a direction, of which some are for one class alone, as in bus:fare.

    :param named: what options name, by their names.
    :param known: names of all columns, which may have a colon themselves.
    :returns: the columns of each option, those of classes once; and the directions of classes.
    :raises WrongUse: for a column that has two directions for a class.
    """
    lists: dict[str, list[str] | None] = {}
    options: dict[tuple[str, str], str] = {}
    directions: dict[str, dict[str, int]] = {}
    for option, text in named.items():
        own: list[str] = []
        lists[option] = None if text is None else own
        for part in parts_of(text or (), known) or text or ():
            places = [at for at, letter in enumerate(part) if letter == ":"]
            pairs = [
                (part[:at].strip(), known_name(part[at + 1 :].strip(), known)) for at in places
            ]
            pair = next((pair for pair in pairs if pair[1] in known), None)
            label, name = (None, part) if pair is None or part in known else pair
            if label is not None:
                if (label, name) in options:
                    raise WrongUse(f"--{options[label, name]} and --{option} both name {part!r}")
                seen = any(name in columns for columns in directions.values())
                options[label, name] = option
                directions.setdefault(label, {})[name] = SIGNS[option]
            if label is None or not seen:
                own.append(name)
    return lists, directions


def for_classes(column: str, directions: Mapping[Any, Mapping[str, int]]) -> str:
    """The directions of a column for classes, in a word for each, as bus -, walk +."""
    signs = {label: own[column] for label, own in directions.items() if column in own}
    return ", ".join(f"{label} {'+' if sign > 0 else '-'}" for label, sign in signs.items())


def put_in_order(frame: pd.DataFrame, orders: Sequence[str], where: str) -> None:
    """Make columns ordered categories.

    :param orders: of each a text `column=level,level,...`, from low to high.
    :raises WrongUse: for unknown columns, and values that are not among the levels.
    """
    for text in orders:
        name, _, rest = text.partition("=")
        column = column_of("--order", name, [*map(str, frame.columns)], where)
        levels, given = list(dict.fromkeys(parts_of(rest))), frame[column].dropna()
        others = given[~given.isin(levels)]
        if len(levels) < 2 or len(others):
            other = f", which lacks {others.tolist()[0]!r}" if len(others) else ""
            raise WrongUse(
                f"--order must have all levels of a text column from low to high, as "
                f"{column}=a,b,c, got {text!r}{other}"
            )
        frame[column] = pd.Categorical(frame[column], levels, ordered=True)


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
    known: Sequence[str], where: str, named: Mapping[str, Sequence[str] | None]
) -> dict[str, str]:
    """The roles that options give to the columns of a table, in its order; the others are free.

    :param known: names of the columns.
    :param where: what has these columns.
    :param named: by the name of an option, the columns that it names, or None.
    :raises WrongUse: for unknown columns, and columns that are named twice.
    """
    roles: dict[str, str] = {}
    for option, names in named.items():
        for name in columns_of(f"--{option}", names, known, where):
            if name in roles:
                raise WrongUse(f"--{roles[name]} and --{option} both name {name!r}")
            roles[name] = option
    return {name: roles.get(name, "free").replace("ignore", "ignored") for name in known}


def check_types(
    frame: pd.DataFrame,
    roles: Mapping[str, str],
    where: str,
    reading: Reading | None,
    text: Collection[str],
) -> None:
    """Refuse columns of a type that cannot have their role.

    :param roles: as `roles_of` returns them.
    :param where: what has these columns.
    :param reading: how their fields were read, if they had no types.
    :param text: columns that are text in any case.
    """
    for name, role in roles.items():
        kind = type_of(frame[name])
        if reading and kind.startswith("text") and role != "ignored" and name not in text:
            strange_form(f"DATA {where}: column {name!r}", frame[name], reading)
        if role in SIGNS and kind.startswith(("text", "category", "date", "other")):
            raise WrongUse(
                f"--{role} {name!r} must have numbers, booleans or an ordered category, and has "
                f"{kind}, such as {frame[name].dropna().tolist()[0]!r}"
            )


def strange_form(name: str, column: pd.Series[Any], reading: Reading) -> None:
    """Refuse a column of text of which nearly all values are numbers or dates.

    :param name: how messages call the column.
    :raises WrongUse: with three of the values, and what reads them.
    """
    counted: dict[Any, int] = column.value_counts().to_dict()
    counts = {f: count for f, count in counted.items() if f.strip().lower() not in ABSENT}
    plain = {f: " ".join(f.split()) for f in counts}  # in which patterns find few blanks
    dates = {f for f in counts if _DATE.fullmatch(plain[f])}
    alike = {f for f in counts if _NUMBER.fullmatch(plain[f]) or reading.number(f) is not None}
    numbers = alike - dates
    rows = sum(counts[f] for f in numbers | dates)
    words = sum(count for f, count in counts.items() if any(map(str.isalnum, f))) - rows
    if not rows or words * _TO_ONE > rows:
        return
    keep = f"--text {as_argument(str(column.name))} makes categories of them"
    if sum(counts[f] for f in dates) > rows / 2:
        raise WrongUse(
            f"{name} has dates or times, such as {_shown(column, dates)}: write numbers in their "
            f"place, such as the days since a date; --ignore leaves the column out, and {keep}"
        )
    shown = _shown(column, [f for f in counts if reading.number(f) is None])
    some = [f for f in counts if f in numbers][:: 1 + len(numbers) // _LOOKED_AT]
    advice = _advice(some, [f for f in counts if f not in numbers], reading)
    numbers_and = f"{name} has numbers, and fields that are not read as numbers, such as"
    raise WrongUse(f"{numbers_and} {shown}: {advice}; {keep}")


def _shown(column: pd.Series[Any], fields: Collection[str]) -> str:
    """The first three of fields, with the row of each."""
    rows: dict[str, int] = {}
    for row, field in enumerate(column, 1):
        if field in fields and len(rows) < _MOST:
            rows.setdefault(field, row)
    return ", ".join(f"{field!r} in row {row}" for field, row in rows.items())


def _advice(numbers: Sequence[str], others: Sequence[str], now: Reading) -> str:
    """The options that read nearly all numbers, and take the rest and other fields for missing.

    :param now: how they were read.
    """
    ways: dict[Any, str] = {}
    known = [Reading((), *marks) for marks in _MARKS]
    read = {reading: {f for f in numbers if reading.number(f) is not None} for reading in known}
    most = max(map(len, read.values()))
    if most * (_TO_ONE + 1) < len(numbers) * _TO_ONE:
        return "write plain numbers in one form, without signs of a currency, per cent or brackets"
    for reading in known:
        if len(read[reading]) == most:
            told, value = [], None
            new = next((f for f in numbers if f in read[reading] and now.number(f) is None), None)
            if new is not None:
                value = reading.number(new)
                told.append(f"{reading} reads {new!r} as {value}")
            if rest := [*(f for f in numbers if f not in read[reading]), *others]:
                named = as_argument(*rest[:_MOST]) + (" and so on" if len(rest) > _MOST else "")
                told.append(f"--missing {named} reads the others as missing values")
            ways.setdefault(value, " and ".join(told))
    return ", or ".join(ways.values())


def counts_rows(column: pd.Series[Any]) -> bool:
    """Whether each value is a whole number, and one more than that of the row before."""
    whole = type_of(column) == "whole number" and len(column) > 2
    return whole and not column.hasnans and set(column.diff()[1:]) == {1}


def doubt_of(column: pd.Series[Any]) -> str:
    """The doubt about a column that is read: an index, or missing values that are text."""
    name = str(column.name)
    if re.fullmatch(r"Unnamed: \d+", name):
        return (
            "has the name that pandas gives to an index without one: "
            f"--ignore {as_argument(name)} leaves it out"
        )
    fields = column.dropna().unique() if type_of(column).startswith("text") else ()
    if absent := [field for field in fields if field.strip().lower() in ABSENT]:
        missing = f"--missing {as_argument(*absent)}"
        return f"has the text {listed(absent)}: {missing} if it has no value there"
    return ""
