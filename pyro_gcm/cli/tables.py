"""Tables in files: CSV, Parquet and Arrow, told apart by the ending of the name."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from pyro_gcm._utils.files import write_file
from pyro_gcm.cli.options import ENDINGS, check_name
from pyro_gcm.cli.output import WrongUse, blamed, instead
from pyro_gcm.cli.reading import Reading, header_of, letters_of, read_csv

#: The name that pandas gives to an index without one.
_UNNAMED = re.compile(r"__index_level_\d+__")
#: How near the name of a file must be to another one, which may share its ending with it.
_NEAR = 0.87


def check_file(path: Path) -> None:
    """Refuse what is no file of a table, with the closest name that there is."""
    check_name("DATA", path)
    if path.is_dir():
        raise WrongUse(f"DATA must be a file, and {path} is a folder")
    if not path.is_file():
        there = sorted(f.name for f in path.parent.glob("*") if f.suffix.lower() in ENDINGS)
        hint = instead(path.name, there, _NEAR) if path.parent.is_dir() else ""
        raise WrongUse(f"DATA must be a file, and there is no {path}{hint}")


def shape_of(path: Path) -> dict[str, int]:
    """How many rows, columns and values a table has, before it is read.

    A CSV file counts as one without rows, since it has no more of them than its size shows.
    """
    if path.suffix.lower() == ".csv":
        rows, columns = 0, len(header_of(path))
    else:
        about = _dataset(path)
        rows, columns = about.count_rows(), len(about.schema.names)
    return {"rows": rows, "columns": columns, "values": rows * columns}


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
            frame, said = read_csv(path, source, reading, text)
        else:
            frame, said = _read_arrow(path)
    if not len(frame):
        raise WrongUse(f"{source} has no rows")
    for sentence in said:
        warnings.warn(f"{path}: {sentence}", stacklevel=1)
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


def _read_arrow(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The table in a file, and what of it was left out; as `reading.read_csv`."""
    table = _dataset(path).to_table()
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    said = []
    if unnamed := [name for name in table.column_names if _UNNAMED.fullmatch(name)]:
        said.append("its index has no name and is left out; give it one if it is to be read")
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
                said.append(
                    f"column {name!r} had categories with an order, which Parquet keeps of text "
                    "alone: it is read without one; write them as text, or an Arrow file"
                )
    return frame.drop(columns=unnamed), said
