"""CSV files: which of their fields are missing values, and how numbers are written in them."""

from __future__ import annotations

import csv
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.cli.errors import WrongUse
from pyro_gcm.cli.lists import as_argument, parts_of

#: Missing values of a column whose other fields are numbers or booleans, as R and pandas write
#: them, in any case; in a column of text they are text.
_ABSENT = ["NA", "N/A", "#NA", "#N/A", "<NA>", "NULL", "None", "NaN", "-NaN"]
_ABSENT += ["1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]  # NaN of C on Windows
ABSENT = frozenset({*_ABSENT, *map(str.lower, _ABSENT)})
#: Signs that are alike: minus, blanks and apostrophes.
_ALIKE = str.maketrans({"\u2212": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2019": "'"})
_NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf|infinity)", re.ASCII | re.IGNORECASE)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Reading:
    """The form of the fields of a file.

    :param missing: fields that are missing values, beside empty ones.
    :param decimal: the mark before the fraction of a number, "." or ",".
    :param thousands: the mark between groups of three digits, or "".
    """

    missing: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""

    @classmethod
    def of_options(
        cls, missing: str | None = None, decimal: str = ".", thousands: str | None = None
    ) -> Reading:
        """The reading that the options of `fit` ask for.

        :raises WrongUse: for marks that numbers cannot have.
        """
        if decimal not in (".", ","):
            raise WrongUse(f"--decimal must be . or , (a full stop or a comma), got {decimal!r}")
        if thousands is not None and (len(thousands) != 1 or re.match(r"[\w+-]", thousands)):
            raise WrongUse(
                "--thousands must be one sign that is no letter, digit, + or -, such as , or ', "
                f"got {thousands!r}"
            )
        if thousands == decimal:
            raise WrongUse(f"--thousands and --decimal must differ, and both are {decimal!r}")
        named = {part.strip() for part in parts_of(missing or "")}
        return cls(tuple(sorted(named)), decimal, thousands or "")

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from the defaults, as keyword arguments."""
        return {name: v for name, v in asdict(self).items() if v != getattr(Reading, name)}

    def __str__(self) -> str:
        """The options as a shell takes them; "the default" without any."""
        values = {name: shlex.quote(str(value)) for name, value in self.options.items()}
        if self.missing:
            values["missing"] = as_argument(*self.missing)
        return " ".join(f"--{name} {value}" for name, value in values.items()) or "the default"

    def is_missing(self, field: str) -> bool:
        """Whether a field of a column of text is a missing value."""
        return not field or field.strip() in self.missing

    def is_absent(self, field: str) -> bool:
        """Whether a field of a column of numbers or booleans is a missing value."""
        return field.strip().lower() in ABSENT or self.is_missing(field)

    def number(self, field: str) -> float | None:
        """The number that a field has, whole ones as `int`, or None."""
        plain = field.translate(_ALIKE).strip()
        if self.thousands:
            mark, point = re.escape(self.thousands.translate(_ALIKE)), re.escape(self.decimal)
            if re.fullmatch(rf"[-+]?\d{{1,3}}({mark}\d{{3}})+({point}\d*)?", plain):
                plain = re.sub(mark, "", plain)
        if self.decimal == ",":
            plain = plain.replace(".", "?").replace(",", ".")
        if not _NUMBER.fullmatch(plain):
            return None
        with suppress(ValueError):
            return int(plain)
        return float(plain)

    def typed(self, fields: pd.Series[Any]) -> pd.Series[Any]:
        """A column with the type that all its fields have: numbers, booleans, or text.

        :param fields: text, or NaN where one is missing.
        """
        places, levels = _levels_of(fields)
        given = [level for level in levels if not self.is_absent(level)]
        values: Any = self._numbers(given)
        if values is None and {level.strip().lower() for level in given} <= {*_BOOLEANS}:
            values = np.array([_BOOLEANS[level.strip().lower()] for level in given])
        if values is None:
            return self.text(fields)
        at = {level: place for place, level in enumerate(given)}
        places = np.array([*(at.get(level, -1) for level in levels), -1])[places]
        if (places < 0).any():  # the last value stands for a missing one
            wide = object if values.dtype.kind == "b" else np.float64
            values = np.append(values.astype(wide), np.nan)
        return _series(values[places], fields)

    def text(self, fields: pd.Series[Any]) -> pd.Series[Any]:
        """A column of text, in which NA and the like are text."""
        places, levels = _levels_of(fields)
        values = [None if self.is_missing(level) else level for level in levels]
        return _series(np.array([*values, None], dtype=object)[places], fields)

    def _numbers(self, fields: Sequence[str]) -> Any:
        """The numbers of different fields as an array, or None."""
        if self.decimal == ".":
            with suppress(ValueError):
                return _plain(pd.to_numeric(np.array(fields, dtype=object)))
        found = []
        for field in fields:
            value = self.number(field)
            if value is None:
                return None
            found.append(value)
        return _plain(np.array(found))


def _plain(numbers: Any) -> Any:
    """Numbers as 64 bits hold them."""
    return numbers if numbers.dtype.kind in "iuf" else numbers.astype("float64")


def _levels_of(fields: pd.Series[Any]) -> tuple[Any, list[str]]:
    """The different fields, and the place of each row's among them, -1 for NaN."""
    places, levels = pd.factorize(fields)
    return places, levels.tolist()


def _series(values: Any, like: pd.Series[Any]) -> pd.Series[Any]:
    return pd.Series(values, index=like.index, name=like.name)


def read_csv(
    path: Path, source: str, reading: Reading, text: Collection[str], written: Collection[str]
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """The table in a CSV file, some of its columns as they are written, and what was left out.

    :param source: what messages call the file.
    :param text: columns of text.
    :param written: columns that are also returned with the letters of the file.
    :raises ValueError: for a file that is no table.
    """
    try:
        names: list[Any] = _header(path, source)
        fields = _fields(path, names, reading, {*text, *written})
    except UnicodeDecodeError as error:
        raise ValueError(
            f"it must be text in UTF-8, and its byte {error.start + 1} is not "
            f"(0x{error.object[error.start]:02x})"
        ) from error
    except pd.errors.ParserWarning:
        raise ValueError(
            f"its rows have more fields than the header, which names {len(names)} columns"
        ) from None
    except (pd.errors.ParserError, csv.Error) as error:
        raise ValueError(str(error).removeprefix("Error tokenizing data. C error: ")) from error
    _check_header_once(fields)
    said = _left_out(fields, names)
    made = {}
    for name in names:
        column = fields[name]
        if isinstance(name, str):
            typed = reading.text if name in text else reading.typed
            made[name] = column if _has_type(column) else typed(column)
    as_they_are = {name: _as_written(fields[name], reading) for name in names if name in written}
    return pd.DataFrame(made), pd.DataFrame(as_they_are), said


def _header(path: Path, source: str) -> list[str | int]:
    """The names of the columns, in the first line that is not empty; a number where one has none.

    :raises ValueError: for an empty file, and one without commas.
    :raises WrongUse: for names that are there twice.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        header = next((row for row in rows if len(row) > 1 or "".join(row).strip()), [])
    if not header:
        raise ValueError("it is empty")
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise ValueError(f"it must have columns separated by commas, got {header[0]!r}")
    check_once(source, filter(str.strip, header))
    return [name if name.strip() else at for at, name in enumerate(header)]


def _fields(
    path: Path, names: list[Any], reading: Reading, letters: Collection[str]
) -> pd.DataFrame:
    """Columns of plain numbers and of booleans as such, and all others with the letters they have.

    pandas finds out which are which, and then reads the others again.
    """
    options: Any = {"names": names, "header": 0, "encoding": "utf-8-sig", "low_memory": False}
    options |= {"index_col": False, "keep_default_na": False}
    if pd.__version__ < "3":  # whose default may be off in the last bit
        options["float_precision"] = "round_trip"
    absent = ["", *ABSENT, *reading.missing]
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        fields = pd.read_csv(
            path,
            dtype={name: str for name in names if name in letters},
            na_values={name: absent for name in names if name not in letters},
            decimal=reading.decimal,
            **options,
        )
    others = [name for name in names if name not in letters and not _has_type(fields[name])]
    if others:
        places = [names.index(name) for name in others]
        again = pd.read_csv(path, dtype=str, na_filter=False, usecols=places, **options)
        fields[others] = again[others]
    return fields


def _has_type(column: pd.Series[Any]) -> bool:
    """Whether a column has numbers, booleans, or nothing."""
    at = column.first_valid_index()
    return column.dtype.kind in "biuf" or at is None or isinstance(column[at], bool)


def _as_written(column: pd.Series[Any], reading: Reading) -> pd.Series[Any]:
    """Fields with their letters: numbers and booleans that are written just so, otherwise text."""
    found = reading.typed(column)
    return found if (found.astype(str) == column).all() else column.mask(column == "")


def _check_header_once(fields: pd.DataFrame) -> None:
    """Refuse a row that is the header again, as in files that were put behind each other."""
    named = [name for name in fields if isinstance(name, str)]
    if not len(fields) or any(_has_type(fields[name]) for name in named):
        return
    again = (fields[named] == named).all(axis=1).to_numpy()
    if again.any():
        raise ValueError(f"its row {int(again.argmax()) + 1} is the header again: remove it")


def _left_out(fields: pd.DataFrame, names: Sequence[str | int]) -> list[str]:
    """Warnings of columns without a name: indexes in front, and commas at the end of rows."""
    said, in_front = [], True
    for at, name in enumerate(names):
        in_front = in_front and name == at
        if name != at:
            continue
        if in_front:
            said.append(
                f"column {at + 1} has no name and is left out, as the index that pandas or R "
                "writes; give it a name if it is to be read"
            )
        elif fields[name].isna().all():
            said.append(f"column {at + 1} has no name and no values, and is left out")
        else:
            raise ValueError(f"its column {at + 1} must have a name, and has none")
    return said


def check_once(where: str, names: Iterable[str]) -> None:
    """Refuse names that are there twice.

    :param where: what has these columns.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise WrongUse(f"{where} has more than one column {min(twice)!r}")
