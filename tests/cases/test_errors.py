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
    names: dict[str, Any] = {"x": ["size", "age"], "r": ["price"], "y": "bought"}
    fit(GCM(2, 1), data=data, **names, epochs=1, progress=False)


#: The second of three files, and what is said of it.
SECOND: dict[str, tuple[pd.DataFrame, str]] = {
    "lacks a column of x": (
        rows().drop(columns="age"),
        "x must be finite, got nan in row 0, column 'age' of PLACE/b.parquet, which has no such "
        "column",
    ),
    "lacks the outcome": (
        rows().drop(columns="bought"),
        "in row 0, column 'bought' of PLACE/b.parquet, which has no such column",
    ),
    "text": (
        rows(age="old"),
        "x must name columns with numbers, got 'age' with type TEXT in PLACE/b.parquet",
    ),
    "a missing cell": (with_cell(13, "age", np.nan), "in row 13, column 'age' of PLACE/b.parquet"),
    "an infinite cell": (
        with_cell(7, "price", np.inf),
        "r must be finite, got inf in row 7, column 'price' of PLACE/b.parquet",
    ),
    "a missing outcome": (
        with_cell(3, "bought", np.nan),
        "in row 3, column 'bought' of PLACE/b.parquet",
    ),
    "no class": (
        with_cell(3, "bought", 2.0),
        "rows are counted from row 0 of PLACE/b.parquet",
    ),
}


@pytest.mark.parametrize("case", SECOND)
def test_a_file_of_several_is_named_with_the_column(case: str, tmp_path: Path) -> None:
    second, wanted = SECOND[case]
    for name, frame in {"a": rows(), "b": second, "c": rows()}.items():
        table = pa.Table.from_pandas(frame, preserve_index=False)
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=5)
    told = re.escape(wanted).replace("PLACE", re.escape(str(tmp_path))).replace("TEXT", r"\w+")
    with pytest.raises((TypeError, ValueError), match=told):
        train(ds.dataset(tmp_path))


def test_a_column_that_the_first_file_lacks_is_found_in_the_others(tmp_path: Path) -> None:
    for name, frame in {"a": rows().drop(columns="age"), "b": rows()}.items():
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match=r"row 0, column 'age' of .*a\.parquet, which has no such"):
        train(ds.dataset(tmp_path))


def test_a_cell_of_a_table_is_named_by_its_column() -> None:
    frame = with_cell(13, "age", np.inf)
    with pytest.raises(ValueError, match="got inf in row 13, column 'age' of data"):
        train(frame)
    x, r, y = frame[["size", "age"]], frame[["price"]], frame["bought"]
    with pytest.raises(ValueError, match=r"the first in row 13, column 'age'$"):
        fit(GCM(2, 1), x, r, y, epochs=1, progress=False)
    arrays = [(x.to_numpy(), r.to_numpy(), y.to_numpy())]
    with pytest.raises(ValueError, match="got inf in row 13, column 1 of data"):
        fit(GCM(2, 1), data=arrays, epochs=1, progress=False)
