"""Tables in files: CSV, Parquet and Arrow, told apart by the ending of the name."""

from __future__ import annotations

import csv
import io
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pyro_gcm._utils.files import write_file
from pyro_gcm.cli.options import ENDINGS, LIMITS, as_argument, check_name, parts_of
from pyro_gcm.cli.output import WrongUse, blamed, instead

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
        cls, missing: Sequence[str] = (), decimal: str = ".", thousands: str | None = None
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
        named = {part.strip() for part in parts_of(missing)}
        return cls(tuple(sorted(named)), decimal, thousands or "")

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from the defaults, as keyword arguments."""
        return {name: v for name, v in vars(self).items() if v != getattr(Reading, name)}

    def __str__(self) -> str:
        """The options as a shell takes them; "the default" without any."""
        values = {name: shlex.quote(str(value)) for name, value in self.options.items()}
        if self.missing:
            values["missing"] = as_argument(*self.missing)
        return " ".join(f"--{name} {value}" for name, value in values.items()) or "the default"

    def is_missing(self, field: str) -> bool:
        """Whether a field of a column of text is a missing value."""
        return not field or field.strip() in self.missing

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
            if abs(int(plain)) < 2**63:
                return int(plain)
        return float(plain)

    def typed(self, fields: pd.Series[Any]) -> pd.Series[Any]:
        """A column with the type that all its fields have: numbers, booleans, or text.

        NA and the like are missing values of numbers and booleans alone.
        """
        levels = [
            level
            for level in fields.unique()
            if not self.is_missing(level) and level.strip().lower() not in ABSENT
        ]
        for read in (self.number, lambda level: _BOOLEANS.get(level.strip().lower())):
            values = {level: read(level) for level in levels}
            if None not in values.values():
                return fields.map(values)
        return self.text(fields)

    def text(self, fields: pd.Series[Any]) -> pd.Series[Any]:
        """A column of text, in which NA and the like are text."""
        return fields.mask(fields.isin([f for f in fields.unique() if self.is_missing(f)]))


def _read_csv(path: Path, source: str, reading: Reading, text: Collection[str]) -> pd.DataFrame:
    """The table in a CSV file.

    pandas finds out which columns have plain numbers or booleans, and reads the others again.

    :param source: what messages call the file.
    :param text: columns of text.
    :raises ValueError: for a file that is no table.
    :raises WrongUse: for names that are there twice.
    """
    names = header_of(path)
    named = [name for name in names if isinstance(name, str)]
    if twice := [name for name, count in Counter(named).items() if count > 1]:
        raise WrongUse(f"{source} has more than one column {min(twice)!r}")
    absent = ["", *ABSENT, *reading.missing]
    try:
        frame = _parsed(path, names, na_values=absent, decimal=reading.decimal)
    except pd.errors.ParserWarning:
        more = "its rows have more fields than the header, which names"
        raise ValueError(f"{more} {len(names)} columns") from None
    letters = letters_of(path, [n for n in names if n in text or not _has_type(frame[n])])
    if len(frame) and not {*named} - {*letters}:
        again = (letters[named] == named).all(axis=1).to_numpy()
        if again.any():
            raise ValueError(f"its row {int(again.argmax()) + 1} is the header again: remove it")
    _tell_left_out(path, frame, names)
    for name in letters:
        frame[name] = (reading.text if name in text else reading.typed)(letters[name])
    return frame[named]


def header_of(path: Path) -> list[Any]:
    """The names of the columns, in the first line that is not empty; a number where one has none.

    :raises ValueError: for an empty file, and one without commas.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        header = next((row for row in rows if len(row) > 1 or "".join(row).strip()), [])
    if not header:
        raise ValueError("it is empty")
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise ValueError(f"it must have columns separated by commas, got {header[0]!r}")
    return [name if name.strip() else at for at, name in enumerate(header)]


def names_of(path: Path) -> list[str]:
    """The names of the columns of a file of any kind, without reading its rows."""
    if path.suffix.lower() == ".csv":
        return [name for name in header_of(path) if isinstance(name, str)]
    return [name for name in _dataset(path).schema.names if not _UNNAMED.fullmatch(name)]


def letters_of(path: Path, wanted: Sequence[Any]) -> pd.DataFrame:
    """Columns of a CSV file with the letters that they have."""
    names = header_of(path)
    places = [names.index(name) for name in wanted]
    return _parsed(path, names, dtype=str, na_filter=False, usecols=places)[[*wanted]]


def _parsed(path: Path, names: list[Any], **how: Any) -> pd.DataFrame:
    options: Any = {"names": names, "header": 0, "encoding": "utf-8-sig", "low_memory": False}
    options |= {"index_col": False, "keep_default_na": False}
    if pd.__version__ < "3":  # whose default may be off in the last bit
        options["float_precision"] = "round_trip"
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        found: pd.DataFrame = pd.read_csv(path, **options, **how)
    return found


def _has_type(column: pd.Series[Any]) -> bool:
    """Whether a column has numbers, booleans, or nothing."""
    at = column.first_valid_index()
    return column.dtype.kind in "biuf" or at is None or isinstance(column[at], bool)


def _tell_left_out(path: Path, frame: pd.DataFrame, names: Sequence[str | int]) -> None:
    """Warn of columns without a name: indexes in front, and commas at the end of rows."""
    for at in (at for at, name in enumerate(names) if name == at):
        said = "and is left out, as the index that pandas or R writes; name it if it is to be read"
        if names[:at] != [*range(at)]:
            said = "and no values, and is left out"
            if frame[at].notna().any():
                raise ValueError(f"its column {at + 1} must have a name, and has none")
        warnings.warn(f"{path}: column {at + 1} has no name {said}", stacklevel=1)


#: The name that pandas gives to an index without one.
_UNNAMED = re.compile(r"__index_level_\d+__")
#: How near the name of a file must be to another one, which may share its ending with it.
_NEAR = 0.87


def check_table(path: Path, *, large: bool) -> None:
    """Refuse what is no file of a table, with the closest name, and one larger than it looks.

    A CSV file counts as one without rows, since it has no more of them than its size shows; a
    Parquet or Arrow file of 100 kB may unpack to millions.
    """
    check_name("DATA", path)
    if path.is_dir():
        raise WrongUse(f"DATA must be a file, and {path} is a folder")
    if not path.is_file():
        there = sorted(f.name for f in path.parent.glob("*") if f.suffix.lower() in ENDINGS)
        hint = instead(path.name, there, _NEAR) if path.parent.is_dir() else ""
        raise WrongUse(f"DATA must be a file, and there is no {path}{hint}")
    with blamed(f"DATA {path} cannot be read"):
        if path.suffix.lower() == ".csv":
            rows, columns = 0, len(header_of(path))
        else:
            about = _dataset(path)
            rows, columns = about.count_rows(), len(about.schema.names)
    for name, count in {"rows": rows, "columns": columns, "values": rows * columns}.items():
        if count > LIMITS[name] and not large:
            limit = f"more than {LIMITS[name]:,} are read with --large alone"
            raise WrongUse(f"DATA {path} has {count:,} {name}, and {limit}")


def read_table(
    path: Path, reading: Reading | None = None, text: Collection[str] = ()
) -> pd.DataFrame:
    """The table in a file, with a warning of what was left out.

    :param reading: how its fields are read.
    :param text: columns of a CSV file that are text even where all their values are digits.
    :raises WrongUse: for a file that has no such table, and for names that are there twice.
    """
    reading, source = reading or Reading(), f"DATA {path}"
    with blamed(f"{source} cannot be read"):
        if path.suffix.lower() == ".csv":
            frame = _read_csv(path, source, reading, text)
        else:
            frame = _read_arrow(path)
    if not len(frame):
        raise WrongUse(f"{source} has no rows")
    return frame


def as_written(path: Path, frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Columns with the letters of the file: numbers that are written just so, otherwise text.

    :param frame: the table in the file.
    """
    found = frame[[*names]].copy()
    if path.suffix.lower() == ".csv" and names:
        for name, fields in letters_of(path, names).items():
            if (found[name].astype(str) != fields).any():
                found[name] = fields.mask(fields == "")
    return found


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as a whole, in the format that the name ends in."""
    content = io.BytesIO()
    if path.suffix.lower() == ".csv":
        frame.to_csv(content, index=False)
    elif path.suffix.lower() == ".parquet":
        frame.to_parquet(content, index=False)
    else:
        frame.to_feather(content, compression="uncompressed")
    with blamed("--out"):
        write_file(path, content.getvalue())


def _dataset(path: Path) -> Any:
    """A Parquet or Arrow file, of which only what it says of itself is read."""
    import pyarrow.dataset as ds

    return ds.dataset(path, format="parquet" if path.suffix.lower() == ".parquet" else "ipc")


def _read_arrow(path: Path) -> pd.DataFrame:
    """The table in a Parquet or Arrow file."""
    table = _dataset(path).to_table()
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    if unnamed := [name for name in table.column_names if _UNNAMED.fullmatch(name)]:
        said = "its index has no name and is left out; give it one if it is to be read"
        warnings.warn(f"{path}: {said}", stacklevel=1)
    noted: list[Any] = []  # what pandas says of the columns, which may be anything
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        noted = [
            (str(column["name"]), column["metadata"]["ordered"])
            for column in table.schema.pandas_metadata["columns"]
            if column["pandas_type"] == "categorical"
        ]
    for name, ordered in noted:  # Parquet keeps categories of text alone
        if name in frame and not isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].astype("category")
            if ordered:
                warnings.warn(
                    f"{path}: column {name!r} had categories with an order, which Parquet keeps of "
                    "text alone: it is read without one; write them as text, or an Arrow file",
                    stacklevel=1,
                )
    return frame.drop(columns=unnamed)
