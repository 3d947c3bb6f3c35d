"""Tables in files: CSV, Parquet and Arrow, told apart by the ending of the name."""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections import Counter
from collections.abc import Collection, Iterable
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
    if path.is_dir():
        raise WrongUse(f"{option} must be a file, and {path} is a folder")
    if not path.is_file():
        near = [f.name for f in path.parent.glob("*") if f.suffix.lower() in ENDINGS]
        hint = instead(path.name, sorted(near)) if path.parent.is_dir() else ""
        raise WrongUse(f"{option} must be a file, and there is no {path}{hint}")
    with blamed(f"{option} {path} cannot be read"):
        frame = (
            _read_csv(path, text, option) if path.suffix.lower() == ".csv" else _read_arrow(path)
        )
    frame.columns = [str(name) for name in frame.columns]
    _check_names(path, frame.columns, option)
    if not len(frame):
        raise WrongUse(f"{option} {path} has no rows")
    return frame


def _check_names(path: Path, names: Iterable[str], option: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise WrongUse(f"{option} {path} has more than one column {min(twice)!r}")


def _read_csv(path: Path, text: Collection[str], option: str) -> pd.DataFrame:
    import pandas as pd

    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
        if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
            raise WrongUse(
                f"{option} {path} must have columns separated by commas, got {header[0]!r}"
            )
        _check_names(path, header, option)  # pandas would rename the second one
        types = {name: str for name in text if name in header}
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                path, dtype=types, encoding="utf-8-sig", low_memory=False, index_col=False
            )
    except UnicodeDecodeError as error:
        raise ValueError(
            f"it must be text in UTF-8, and its byte {error.start + 1} is not "
            f"(0x{error.object[error.start]:02x})"
        ) from error
    except pd.errors.EmptyDataError:
        raise ValueError("it is empty") from None
    except pd.errors.ParserWarning:
        raise ValueError(
            f"its rows have more fields than the header, which names {len(header)} columns"
        ) from None
    except pd.errors.ParserError as error:
        message = str(error).removeprefix("Error tokenizing data. C error: ")
        raise ValueError(message) from error


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
