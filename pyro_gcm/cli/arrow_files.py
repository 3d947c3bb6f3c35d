"""Tables in Parquet and Arrow files, with what pandas notes in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyro_gcm.cli.columns import check_once, type_of
from pyro_gcm.cli.reading import Reading

if TYPE_CHECKING:
    import pandas as pd


def read_arrow(path: Path, source: str, reading: Reading) -> tuple[pd.DataFrame, list[str]]:
    """The table in a file, and what of it was left out.

    :param source: what messages call the file.
    :param reading: names text that is a missing value.
    :raises ValueError: for a file that is no table.
    """
    import pandas as pd
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
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        known = column.cat.categories
        return column.cat.remove_categories(known[known.isin(missing)])
    return column.mask(column.isin(missing)) if type_of(column).startswith("text") else column


def _as_categories(frame: pd.DataFrame, noted: Any) -> list[str]:
    """Make categories of columns that were some, which Parquet keeps of text alone.

    :param noted: what pandas says of the columns, or None.
    :returns: what is said of categories whose order the file does not have.
    """
    import pandas as pd

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
