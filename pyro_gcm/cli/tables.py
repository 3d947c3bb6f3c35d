"""Tables in files: CSV, Parquet and Arrow, told apart by the ending of the name."""

from __future__ import annotations

import io
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pyro_gcm._utils.files import write_file
from pyro_gcm.cli.columns import type_of
from pyro_gcm.cli.errors import WrongUse, blamed, instead
from pyro_gcm.cli.options import ENDINGS, check_table_name
from pyro_gcm.cli.reading import Reading, check_once, read_csv


@dataclass(frozen=True)
class Table:
    """A table that was read.

    :param frame: its columns by name, with their types.
    :param written: those that were asked for with the letters of the file.
    """

    frame: pd.DataFrame
    written: pd.DataFrame


def read_table(
    path: Path,
    reading: Reading | None = None,
    text: Collection[str] = (),
    written: Collection[str] = (),
) -> Table:
    """The table in a file, with a warning of what was left out.

    :param reading: how its fields are read.
    :param text: columns of a CSV file that are text even where all their values are digits.
    :param written: columns that are also wanted with the letters of the file.
    :raises WrongUse: for a file that is not there or no such table, and for names that are there
        twice.
    """
    check_table_name("DATA", path)
    if path.is_dir():
        raise WrongUse(f"DATA must be a file, and {path} is a folder")
    if not path.is_file():
        near = [f.name for f in path.parent.glob("*") if f.suffix.lower() in ENDINGS]
        hint = instead(path.name, sorted(near)) if path.parent.is_dir() else ""
        raise WrongUse(f"DATA must be a file, and there is no {path}{hint}")
    reading, source = reading or Reading(), f"DATA {path}"
    with blamed(f"{source} cannot be read"):
        if path.suffix.lower() == ".csv":
            frame, letters, said = read_csv(path, source, reading, text, written)
        else:
            frame, said = read_arrow(path, source, reading)
            letters = frame[[name for name in frame if name in written]]
    if not len(frame):
        raise WrongUse(f"{source} has no rows")
    for sentence in said:
        warnings.warn(f"{path}: {sentence}", stacklevel=1)
    return Table(frame, letters)


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


def read_arrow(path: Path, source: str, reading: Reading) -> tuple[pd.DataFrame, list[str]]:
    """The table in a file, and what of it was left out.

    :param source: what messages call the file.
    :param reading: names text that is a missing value.
    :raises ValueError: for a file that is no table.
    """
    import pyarrow as pa

    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path, partitioning=None)
    else:
        with pa.memory_map(str(path)) as file:
            try:
                table = pa.ipc.open_file(file).read_all()
            except pa.ArrowInvalid:
                file.seek(0)
                table = pa.ipc.open_stream(file).read_all()
    if len(set(table.column_names)) < table.num_columns:
        raise ValueError(f"its columns have the same name twice: {table.column_names}")
    frame: pd.DataFrame = table.to_pandas()
    said = []
    named = [name for name in frame.index.names if name is not None]
    if len(named) < frame.index.nlevels and not isinstance(frame.index, pd.RangeIndex):
        said.append("its index has no name and is left out; give it one if it is to be read")
    frame = (frame.reset_index(level=named) if named else frame).reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    check_once(source, frame.columns)
    said += _as_categories(frame, table.schema.pandas_metadata)
    if reading.missing:
        for name in frame.columns:
            frame[name] = _without(frame[name], reading.missing)
    return frame, said


def _without(column: pd.Series[Any], missing: Sequence[str]) -> pd.Series[Any]:
    """A column in which some texts are missing values."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = column.cat.categories
        return column.cat.remove_categories(known[known.isin(missing)])
    return column.mask(column.isin(missing)) if type_of(column).startswith("text") else column


def _as_categories(frame: pd.DataFrame, noted: Any) -> list[str]:
    """Make categories of columns that were some, which Parquet keeps of text alone.

    :param noted: what pandas says of the columns, or None.
    :returns: what is said of categories whose order the file does not have.
    """
    said = []
    for column in (noted or {}).get("columns", []):
        name = str(column["name"])
        if column["pandas_type"] != "categorical" or name not in frame:
            continue
        if not isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].astype("category")
            if (column["metadata"] or {}).get("ordered"):
                said.append(
                    f"column {name!r} had categories with an order, which Parquet keeps of text "
                    "alone: it is read without one; write them as text, or an Arrow file"
                )
    return said
