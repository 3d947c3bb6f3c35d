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


def test_files_are_read_as_they_are(tmp_path: Path) -> None:
    for dtype in (np.float32, np.float64):
        rows = table(70_000, dtype)
        source = opened(files(tmp_path / dtype.__name__, rows, [30_000, 40_000], 20_000))
        assert source.rows == sum(source.shards) == 70_000
        assert len(source.shards) == 4
        for _ in range(2):
            columns = read(source)
            for name, column in in_memory(rows).items():
                assert torch.equal(columns[name], column)
                assert columns[name].dtype == column.dtype
        assert max(len(block["y"]) for block in source.read(1)) <= 16_384


def test_batches_are_read_as_they_are() -> None:
    loader = DataLoader(TensorDataset(*in_memory(ROWS).values()), batch_size=64)
    for data in (BATCHES, Batches(), loader):
        source = BatchRows(data)
        assert source.rows is None
        assert source.shards is None
        for _ in range(2):
            columns = read(source)
            for name, column in in_memory(ROWS).items():
                assert torch.equal(columns[name], column), (type(data), name)


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


# What is refused


WRONG_NAMES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"x": ["a", "z"]}, KeyError, "z does not exist"),
    ({"y": "Y"}, KeyError, "Y does not exist"),
    ({"x": ["text"]}, TypeError, "must name columns with numbers, got 'text' with string"),
    ({"y": "time"}, TypeError, "must name columns with numbers, got 'time' with timestamp"),
]


def test_wrong_names_and_other_datasets_are_refused(tmp_path: Path) -> None:
    columns = {**{name: [1.0, 1.0] for name in "abcpqy"}, "text": ["u", "v"]}
    rows = pa.table({**columns, "time": pa.array([0, 1], pa.timestamp("s"))})
    data = files(tmp_path / "a", rows, [2], 2)
    for changed, error, message in WRONG_NAMES:
        with pytest.raises(error, match=message):
            ParquetRows(data, **{**NAMES, **changed})
    with pytest.raises(ValueError, match="dataset has no rows, at least one is needed"):
        opened(files(tmp_path / "empty", ROWS.slice(0, 0), [0], 1))
    ds.write_dataset(ROWS, tmp_path / "b", format="feather")
    for other in (ds.dataset(tmp_path / "b", format="feather"), ds.dataset(ROWS)):
        with pytest.raises(TypeError, match="dataset must be one of Parquet files"):
            opened(other)


def test_other_data_and_loaders_that_shuffle_are_refused() -> None:
    for data, error, message in (
        ("data.parquet", TypeError, "x must come with r and y, or be ParquetRows, a DataLoader"),
        (torch.ones(3), TypeError, "x must come with r and y"),
        ({"x": 1}, TypeError, "batches of (x, r, y), got {'x': 1}"),
        (None, TypeError, "got None"),
        (iter(BATCHES), ValueError, "more than once, got list_iterator: pass a DataLoader"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            BatchRows(data)
    rows = TensorDataset(*in_memory(ROWS).values())
    for options in ({"shuffle": True}, {"sampler": WeightedRandomSampler([1.0] * 1000, 5)}):
        with pytest.raises(ValueError, match=r"must be a DataLoader with shuffle=False"):
            BatchRows(DataLoader(rows, **options))


def test_wrong_batches_are_refused_with_their_number() -> None:
    x, r, y = BATCHES[0]
    for item, error, message in (
        ((x, r), ValueError, "is shorter than argument 1"),
        ({"x": x, "y": y}, KeyError, "'r'"),
        ({"x": x, "r": r, "y": y, "w": y}, ValueError, r"batch 1 must .* alone, got also \['w'\]"),
        ((x, r, ["u"] * 300), TypeError, "y of batch 1 must be a numeric array or tensor"),
        ((x[1:], r, y), ValueError, "row counts differ: x has 299, r has 300"),
    ):
        with pytest.raises(error, match=message):
            read(BatchRows([BATCHES[0], item]))
