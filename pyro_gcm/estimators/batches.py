"""Batches of any kind as data frames, and results in the kind that came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def as_frame(batch: Any) -> Any:
    """A batch as a narwhals DataFrame.

    :param batch: an Arrow table or record batch, a DataFrame of pandas or polars, or a mapping from
        names to arrays.
    :raises TypeError: for anything else.
    """
    import narwhals as nw

    if isinstance(batch, Mapping):
        import pandas as pd

        batch = pd.DataFrame(dict(batch))
    elif _is_record_batch(batch):
        import pyarrow as pa

        batch = pa.Table.from_batches([batch])
    try:
        return nw.from_native(batch, eager_only=True)
    except TypeError:
        raise TypeError(
            "batch must be an Arrow table or record batch, a DataFrame of pandas or polars, or a "
            f"mapping from names to arrays, got {type(batch).__name__}"
        ) from None


def in_kind_of(batch: Any, frame: Any, kept: Sequence[str], columns: Mapping[str, Any]) -> Any:
    """Columns beside those of the frame that are kept, in the kind of the batch.

    :param frame: what `as_frame` made of the batch.
    :param columns: for each row of the frame; for a frame without rows, of any row.
    """
    import narwhals as nw

    values = {
        name: column.tolist() if column.dtype.kind in "OU" else column
        for name, column in columns.items()
    }
    made = nw.from_dict(values, backend=frame.implementation)[: len(frame)]
    if frame.implementation.is_pandas():
        made = nw.from_native(made.to_native().set_axis(frame.to_native().index))
    native = nw.concat([frame.select(*kept), made], how="horizontal") if kept else made
    native = native.to_native()
    if isinstance(batch, Mapping):
        return {name: native[name].to_numpy() for name in native.columns}
    if not _is_record_batch(batch):
        return native
    import pyarrow as pa

    whole = native.combine_chunks().to_batches()
    return whole[0] if whole else pa.RecordBatch.from_pylist([], schema=native.schema)


def _is_record_batch(batch: Any) -> bool:
    return type(batch).__module__.startswith("pyarrow") and type(batch).__name__ == "RecordBatch"
