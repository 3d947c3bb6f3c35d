"""Tables in CSV files."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyro_gcm.cli.columns import check_once
from pyro_gcm.cli.reading import ABSENT, Reading

if TYPE_CHECKING:
    import pandas as pd


def read_csv(
    path: Path, source: str, reading: Reading, text: Collection[str], written: Collection[str]
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """The table in a CSV file, some of its columns as they are written, and what was left out.

    :param source: what messages call the file.
    :param text: columns of text.
    :param written: columns that are also returned with the letters of the file.
    :raises ValueError: for a file that is no table.
    """
    import pandas as pd

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
    import pandas as pd

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
