"""Tables in files: CSV, Parquet and Arrow, told apart by the ending of the name."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pyro_gcm.cli.errors import WrongUse, blamed, instead
from pyro_gcm.files.writing import write_file

if TYPE_CHECKING:
    import pandas as pd

#: Endings of the names of tables.
ENDINGS = (".csv", ".parquet", ".arrow", ".feather")


def check_table_name(option: str, path: Path) -> None:
    """Refuse a name that does not end as a table does.

    :param option: how messages name the file.
    """
    if path.suffix.lower() not in ENDINGS:
        raise WrongUse(f"{option} must end in {', '.join(ENDINGS)}, got {path}")
    if path.suffix.lower() != ".csv":
        with blamed(f"{option} {path} needs pyarrow (pip install pyarrow)"):
            import pyarrow  # noqa: F401


def check_output(option: str, path: Path | None, inputs: Collection[Path] = ()) -> None:
    """Refuse, before any work is done, a place where no file can be written."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"{option} must be a file, got the folder {path}")
    if any(path.exists() and given.exists() and path.samefile(given) for given in inputs):
        raise WrongUse(f"{option} must be another file than the one that is read, got {path}")
    check_writable(option, path)


def check_writable(option: str, path: Path) -> None:
    """Refuse a place below a file, or in a folder that cannot be written to."""
    place = Path(os.path.abspath(path)).parent
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise WrongUse(f"{option} must be in a folder, got {path}, and {place} is a file")
    if not os.access(place, os.W_OK):
        raise WrongUse(f"{option} {path}: the folder {place} cannot be written to")


def read_table(path: Path, text: Collection[str] = (), option: str = "DATA") -> pd.DataFrame:
    """The table in a file, with its columns by name.

    :param text: columns of a CSV file that are text even where all their values are digits.
    :raises WrongUse: for a file that is not there or no such table, and for names that are there
        twice.
    """
    check_table_name(option, path)
    if not path.is_file():
        near = [f.name for f in path.parent.glob("*") if f.suffix.lower() in ENDINGS]
        hint = instead(path.name, sorted(near)) if path.parent.is_dir() else ""
        raise WrongUse(f"{option} must be a file, and there is no {path}{hint}")
    with blamed(f"{option} {path} cannot be read"):
        frame = _read_csv(path, text) if path.suffix.lower() == ".csv" else _read_arrow(path)
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise WrongUse(f"{option} {path} has more than one column {twice[0]!r}")
    if not len(frame):
        raise WrongUse(f"{option} {path} has no rows")
    frame.columns = names
    return frame


def _read_csv(path: Path, text: Collection[str]) -> pd.DataFrame:
    import pandas as pd

    with open(path, encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise WrongUse(f"DATA {path} must have columns separated by commas, got {header[0]!r}")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:  # pandas would rename the second one
        raise WrongUse(f"DATA {path} has more than one column {twice[0]!r}")
    types = {name: str for name in text if name in header}
    return pd.read_csv(path, dtype=types, encoding="utf-8-sig", low_memory=False)


def _read_arrow(path: Path) -> pd.DataFrame:
    import pyarrow as pa

    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
    else:
        with pa.memory_map(str(path)) as source:
            try:
                table = pa.ipc.open_file(source).read_all()
            except pa.ArrowInvalid:
                source.seek(0)
                table = pa.ipc.open_stream(source).read_all()
    if len(set(table.column_names)) < table.num_columns:
        raise ValueError(f"its columns have the same name twice: {table.column_names}")
    frame: pd.DataFrame = table.to_pandas()
    return frame.reset_index() if frame.index.name in table.column_names else frame


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as a whole, in the format that the name ends in."""
    if path.suffix.lower() == ".csv":
        content = frame.to_csv(index=False).encode()
    else:
        content = _arrow_bytes(frame, parquet=path.suffix.lower() == ".parquet")
    with blamed("--out"):
        write_file(path, content)


def _arrow_bytes(frame: pd.DataFrame, *, parquet: bool) -> bytes:
    import pyarrow as pa

    table, sink = pa.Table.from_pandas(frame, preserve_index=False), io.BytesIO()
    if parquet:
        import pyarrow.parquet as pq

        pq.write_table(table, sink)
    else:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()
