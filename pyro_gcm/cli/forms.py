"""Numbers and dates in a form that is read as text, and the options that read them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from pyro_gcm.cli.lists import as_argument
from pyro_gcm.cli.reading import ABSENT, Reading

_SIGN = "[-+\u2212]?"
_UNIT = "(%|\u2030|[$£¢¥\u20a0-\u20cf]|USD|EUR|GBP|CHF|JPY)?"
_GROUPS = r"\d{1,3}([,.'’ \u00a0\u2009\u202f]\d{3})+|\d{1,2}(,\d\d)+,\d{3}"
_DIGITS = rf"(({_GROUPS}|\d+)([.,]\d*)?|[.,]\d+)(e[-+]?\d+)?"
_NUMBER = re.compile(
    rf"\s*\(?\s*{_SIGN}\s*{_UNIT}\s*{_SIGN}\s*{_DIGITS}\s*{_UNIT}\s*{_SIGN}\s*\)?\s*",
    re.ASCII | re.IGNORECASE,
)
_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_CLOCK = r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( ?[ap]m)?"
_DATE = re.compile(
    rf"\s*((\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](\d{{4}}|\d\d)"
    rf"|\d{{4}}-\d\d|\d{{1,2}}[-. ]+{_MONTH}[-., ]+\d{{2,4}}|{_MONTH} \d{{1,2}}, ?\d{{4}})"
    rf"([T ]+{_CLOCK} ?(Z|UTC|[-+]\d\d:?\d\d)?)?|{_CLOCK}|-?\d+ days.*)\s*",
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


def strange_form(column: pd.Series[Any], reading: Reading) -> str:
    """The fault of a column of text of which nearly all values are numbers or dates.

    :returns: three of the values and what reads them; empty for other text.
    """
    counted = {str(field): int(count) for field, count in column.value_counts().items()}
    counts = {f: count for f, count in counted.items() if f.strip().lower() not in ABSENT}
    plain = {f: " ".join(f.split()) for f in counts}  # in which patterns find few blanks
    numbers = {f for f in counts if _NUMBER.fullmatch(plain[f]) or reading.number(f) is not None}
    dates = {f for f in counts if f not in numbers and _DATE.fullmatch(plain[f])}
    alike = sum(counts[f] for f in numbers | dates)
    words = sum(count for f, count in counts.items() if any(map(str.isalnum, f))) - alike
    if not alike or words * _TO_ONE > alike:
        return ""
    keep = f"--text {as_argument(str(column.name))} makes categories of them"
    if sum(counts[f] for f in dates) > alike / 2:
        return (
            f"has dates or times, such as {_shown(column, dates)}: write numbers in their place, "
            f"such as the days since a date; --ignore leaves the column out, and {keep}"
        )
    shown = _shown(column, [f for f in counts if reading.number(f) is None])
    some = [f for f in counts if f in numbers][:: 1 + len(numbers) // _LOOKED_AT]
    advice = _advice(some, [f for f in counts if f not in numbers], reading)
    return (
        f"has numbers, and fields that are not read as numbers, such as {shown}: {advice}; {keep}"
    )


def _shown(column: pd.Series[Any], fields: Collection[str]) -> str:
    """The first three of fields, with the row of each."""
    there = column[column.isin([*fields])].drop_duplicates()[:_MOST]
    rows = column.index.get_indexer(there.index) + 1
    return ", ".join(f"{f!r} in row {row}" for f, row in zip(there, rows, strict=True))


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
