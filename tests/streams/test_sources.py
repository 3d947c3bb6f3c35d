"""Rows are the same from files, tables, frames and batches; wrong data is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch
from streamed_rows import NAMES, files, in_batches, in_memory, opened, read, table
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from pyro_gcm.streams import BatchRows, ParquetRows

ROWS = table()
BATCHES = in_batches(ROWS, 300)
NAN = float("nan")


class Batches:
    """Starts anew at each pass."""

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for x, r, y in BATCHES:
            yield {"y": y[:, None], "x": x, "r": r}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_are_read_as_they_are(dtype: Any, tmp_path: Path) -> None:
    rows = table(70_000, dtype)
    source = opened(files(tmp_path / "data", rows, [30_000, 40_000], 20_000))
    assert source.rows == 70_000
    assert sum(source.shards) == 70_000
    assert len(source.shards) == 4
    for _ in range(2):
        found = read(source)
        for name, column in in_memory(rows).items():
            assert torch.equal(found[name], column)
            assert found[name].dtype == column.dtype
    assert max(len(block["y"]) for block in source.read(1)) <= 16_384


@pytest.mark.parametrize(
    "data",
    [BATCHES, Batches(), DataLoader(TensorDataset(*in_memory(ROWS).values()), batch_size=64)],
    ids=["list", "dictionaries", "DataLoader"],
)
def test_batches_are_read_as_they_are(data: Any) -> None:
    source = BatchRows(data)
    assert source.rows is None
    assert source.shards is None
    for _ in range(2):
        found = read(source)
        assert all(torch.equal(found[name], c) for name, c in in_memory(ROWS).items())


def test_numbers_of_all_types_become_float_and_nulls_nan(tmp_path: Path) -> None:
    columns = {
        "f16": (pa.array(np.float16([1.5, NAN, 2])), [1.5, NAN, 2.0]),
        "f32": (pa.array([1.5, None, 0.1], pa.float32()), [1.5, NAN, float(np.float32(0.1))]),
        "f64": ([1.5, None, 0.1], [1.5, NAN, 0.1]),
        "i64": ([1, None, 2**60], [1.0, NAN, 2.0**60]),
        "u8": (pa.array([1, 255, 0], pa.uint8()), [1.0, 255.0, 0.0]),
        "bool": ([True, None, False], [1.0, NAN, 0.0]),
        "dec": ([Decimal("1.5"), None, Decimal(2)], [1.5, NAN, 2.0]),
    }
    rows = pa.table({name: values for name, (values, _) in columns.items()})
    data = files(tmp_path / "data", rows, [3], 2)
    for y, (_, expected) in columns.items():
        x = [name for name in columns if name != y]
        found = read(ParquetRows(data, x[:-1], x[-1:], y))
        assert found["y"].dtype == (torch.float32 if y in ("f16", "f32") else torch.float64)
        assert found["x"].dtype == torch.float64
        np.testing.assert_array_equal(found["y"].numpy(), expected)
        for j, name in enumerate(x[:-1]):
            np.testing.assert_array_equal(found["x"][:, j].numpy(), columns[name][1])


def test_columns_of_folders_and_columns_that_files_lack(tmp_path: Path) -> None:
    for year, columns in ((2001, {"a": [1.0, 2.0], "y": [0, 1]}), (2002, {"y": [1, 0]})):
        folder = tmp_path / f"year={year}"
        folder.mkdir()
        pq.write_table(pa.table(columns), folder / "part.parquet")
    found = read(ParquetRows(ds.dataset(tmp_path, partitioning="hive"), ["a"], ["year"], "y"))
    np.testing.assert_array_equal(found["x"][:, 0], [1, 2, NAN, NAN])
    assert found["r"][:, 0].tolist() == [2001, 2001, 2002, 2002]
    assert found["y"].tolist() == [0, 1, 1, 0]


def test_only_the_types_of_batches_are_converted() -> None:
    item = ([[1, 2]], np.ones((1, 1), np.float16), torch.tensor([True]))
    block = next(BatchRows([item]).read(0))
    assert [c.dtype for c in block.values()] == [torch.float64, torch.float32, torch.float64]


WRONG_NAMES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown": ({"x": ["a", "z"]}, KeyError, "z does not exist"),
    "unknown y": ({"y": "Y"}, KeyError, "Y does not exist"),
    "text": ({"x": ["text"]}, TypeError, "must name columns with numbers, got 'text' with string"),
    "time": ({"y": "time"}, TypeError, "must name columns with numbers, got 'time' with timestamp"),
}


@pytest.mark.parametrize("case", WRONG_NAMES)
def test_wrong_names_are_refused_before_rows_are_read(case: str, tmp_path: Path) -> None:
    changed, error, message = WRONG_NAMES[case]
    columns = {**{name: [1.0, 1.0] for name in "abcpqy"}, "text": ["u", "v"]}
    rows = pa.table({**columns, "time": pa.array([0, 1], pa.timestamp("s"))})
    with pytest.raises(error, match=re.escape(message)):
        ParquetRows(files(tmp_path / "a", rows, [2], 2), **{**NAMES, **changed})


def test_other_datasets_and_those_without_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="dataset has no rows, at least one is needed"):
        opened(files(tmp_path / "a", ROWS.slice(0, 0), [0], 1))
    ds.write_dataset(ROWS, tmp_path / "b", format="feather")
    for other in (ds.dataset(tmp_path / "b", format="feather"), ds.dataset(ROWS)):
        with pytest.raises(TypeError, match="dataset must be one of Parquet files"):
            opened(other)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ("data.parquet", TypeError, "x must come with r and y, or be ParquetRows, a DataLoader"),
        (torch.ones(3), TypeError, "x must come with r and y"),
        ({"x": 1}, TypeError, "batches of (x, r, y), got {'x': 1}"),
        (None, TypeError, "got None"),
        (iter(BATCHES), ValueError, "more than once, got list_iterator: pass a DataLoader"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_data_is_refused(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        BatchRows(data)


def test_loaders_that_shuffle_are_refused() -> None:
    rows = TensorDataset(*in_memory(ROWS).values())
    for options in ({"shuffle": True}, {"sampler": WeightedRandomSampler([1.0] * 1000, 5)}):
        with pytest.raises(ValueError, match=r"must be a DataLoader with shuffle=False"):
            BatchRows(DataLoader(rows, **options))


X, R, Y = BATCHES[0]
WRONG_BATCHES: dict[str, tuple[Any, type[Exception], str]] = {
    "two": ((X, R), TypeError, "batch 1 must have x, r and y, got"),
    "names": ({"x": X, "y": Y}, TypeError, "batch 1 must have x, r and y, got"),
    "text": ((X, R, ["u"] * 300), TypeError, "y of batch 1 must be a numeric array or tensor"),
    "rows": ((X[1:], R, Y), ValueError, "row counts differ: x has 299, r has 300"),
}


@pytest.mark.parametrize("case", WRONG_BATCHES)
def test_wrong_batches_are_refused_with_their_number(case: str) -> None:
    item, error, message = WRONG_BATCHES[case]
    with pytest.raises(error, match=re.escape(message)):
        read(BatchRows([BATCHES[0], item]))
