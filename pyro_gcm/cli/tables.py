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
from pyro_gcm.cli.columns import type_of
from pyro_gcm.cli.errors import WrongUse, blamed, instead
from pyro_gcm.cli.options import ENDINGS, check_name
from pyro_gcm.cli.reading import Reading, check_once, header_of, letters_of, read_csv


def check_file(path: Path) -> None:
    """Refuse what is no file of a table, with the closest name that there is."""
    check_name("DATA", path)
    if path.is_dir():
        raise WrongUse(f"DATA must be a file, and {path} is a folder")
    if not path.is_file():
        near = [f.name for f in path.parent.glob("*") if f.suffix.lower() in ENDINGS]
        hint = instead(path.name, sorted(near)) if path.parent.is_dir() else ""
        raise WrongUse(f"DATA must be a file, and there is no {path}{hint}")


def shape_of(path: Path) -> tuple[int, int]:
    """How many rows and columns a table has, before it is read; one batch of Arrow at a time.

    A CSV file counts as one without rows, since it has no more of them than its size shows.
    """
    if path.suffix.lower() == ".csv":
        return 0, len(header_of(path))
    import pyarrow as pa

    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        about = pq.read_metadata(path)
        return about.num_rows, about.num_columns
    with pa.memory_map(str(path)) as file:
        schema, batches = _batches(file)
        return sum(len(batch) for batch in batches), len(schema)


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
            frame, said = _read_arrow(path, source, reading)
    if not len(frame):
        raise WrongUse(f"{source} has no rows")
    for sentence in said:
        warnings.warn(f"{path}: {sentence}", stacklevel=1)
    return frame


def as_written(
    path: Path, frame: pd.DataFrame, names: Sequence[str], reading: Reading
) -> pd.DataFrame:
    """Columns with the letters of the file: numbers that are written just so, otherwise text.

    :param frame: the table in the file.
    """
    if path.suffix.lower() != ".csv":
        return frame[[*names]]
    letters = letters_of(path, names)
    for name in names:
        typed = reading.typed(letters[name])
        same = (typed.astype(str) == letters[name]).all()
        letters[name] = typed if same else letters[name].mask(letters[name] == "")
    return letters


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


def _batches(file: Any) -> tuple[Any, Any]:
    """The schema and the batches of an Arrow file or stream."""
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        stream = pa.ipc.open_stream(file)
        return stream.schema, iter(stream)
    return reader.schema, map(reader.get_batch, range(reader.num_record_batches))


def _read_arrow(path: Path, source: str, reading: Reading) -> tuple[pd.DataFrame, list[str]]:
    """The table in a file, and what of it was left out; as `reading.read_csv`."""
    import pyarrow as pa

    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path, partitioning=None)
    else:
        with pa.memory_map(str(path)) as file:
            schema, batches = _batches(file)
            table = pa.Table.from_batches(batches, schema)
    check_once(source, table.column_names)
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    unnamed = [name for name in map(str, frame) if re.fullmatch(r"__index_level_\d+__", name)]
    said = []
    if unnamed:
        said.append("its index has no name and is left out; give it one if it is to be read")
    noted: list[Any] = []  # what pandas says of the columns, which may be anything
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        noted = [
            (column["name"], (column.get("metadata") or {}).get("ordered"))
            for column in table.schema.pandas_metadata["columns"]
            if column.get("pandas_type") == "categorical"
        ]
    for name, ordered in noted:  # Parquet keeps categories of text alone
        if name in frame and not isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].astype("category")
            if ordered:
                said.append(
                    f"column {name!r} had categories with an order, which Parquet keeps of text "
                    "alone: it is read without one; write them as text, or an Arrow file"
                )
    for name in frame if reading.missing else ():
        frame[name] = _without(frame[name], reading.missing)
    return frame.drop(columns=unnamed), said


def _without(column: pd.Series[Any], missing: Sequence[str]) -> pd.Series[Any]:
    """A column in which some texts are missing values."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = column.cat.categories
        return column.cat.remove_categories(known[known.isin(missing)])
    return column.mask(column.isin(missing)) if type_of(column).startswith("text") else column
