"""One wrong cell among numbers is told with its file, row and column."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pyro_gcm import GCM, fit
from pyro_gcm.streams import ParquetRows


def rows(**changed: Any) -> pd.DataFrame:
    """Twenty rows, of which some cells are others."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.random(20), "size": 1.0, "price": rng.random(20)})
    frame["bought"] = frame["price"] > 0.5
    return frame.assign(**changed)


def with_cell(row: int, column: str, value: Any) -> pd.DataFrame:
    frame = rows().astype({"bought": float})
    frame.loc[row, column] = value
    return frame


def train(data: Any) -> None:
    rows = ParquetRows(data, ["size", "age"], ["price"], "bought")
    fit(GCM(2, 1), rows, epochs=1, progress=False)


#: The second of three files, and what is said of it.
SECOND: dict[str, tuple[pd.DataFrame, str]] = {
    "lacks x": (
        rows().drop(columns="age"),
        "x must be .*nan in row 0, column 'age' of FILE, which has",
    ),
    "lacks y": (rows().drop(columns="bought"), "row 0, column 'bought' of FILE, which has no such"),
    "text": (rows(age="old"), "FILE cannot be read"),
    "no x": (with_cell(13, "age", np.nan), "in row 13, column 'age' of FILE"),
    "infinite": (with_cell(7, "price", np.inf), "r .* got inf in row 7, column 'price' of FILE"),
    "no y": (with_cell(3, "bought", np.nan), "in row 3, column 'bought' of FILE"),
    "no class": (with_cell(3, "bought", 2.0), "rows are counted from row 0 of FILE"),
}


@pytest.mark.parametrize(("second", "wanted"), SECOND.values(), ids=SECOND)
def test_one_of_many_files_is_named(second: pd.DataFrame, wanted: str, tmp_path: Path) -> None:
    for name, frame in {"a": rows(), "b": second, "c": rows()}.items():
        table = pa.Table.from_pandas(frame, preserve_index=False)
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=5)
    told = wanted.replace("FILE", re.escape(str(tmp_path / "b.parquet")))
    with pytest.raises((TypeError, ValueError), match=told):
        train(ds.dataset(tmp_path))


def test_a_cell_of_a_table_is_named_by_its_column() -> None:
    frame = with_cell(13, "age", np.inf)
    x, r, y = frame[["size", "age"]], frame[["price"]], frame["bought"]
    with pytest.raises(ValueError, match=r"got inf in row 13, column 'age'$"):
        fit(GCM(2, 1), x, r, y, epochs=1, progress=False)
    arrays = [(x.to_numpy(), r.to_numpy(), y.to_numpy())]
    with pytest.raises(ValueError, match="got inf in row 13, column 1 of data"):
        fit(GCM(2, 1), arrays, epochs=1, progress=False)
