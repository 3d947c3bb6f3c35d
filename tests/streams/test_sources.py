"""Rows are the same from files, tables, frames and batches; wrong data is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch
from streamed_rows import NAMES, files, in_batches, in_memory, of_kind, opened, read, table
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

from pyro_gcm.streams import open_source

ROWS = table()
BATCHES = in_batches(ROWS, 300)
NAN = float("nan")


class Batches:
    """Starts anew at each pass."""

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for x, r, y in BATCHES:
            yield {"y": y[:, None], "x": x, "r": r}


@pytest.mark.parametrize("kind", ["files", "arrow", "pandas", "polars"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tables_are_read_as_they_are(kind: str, dtype: Any, tmp_path: Path) -> None:
    rows = table(70_000, dtype)
    rows = pa.concat_tables([rows.slice(0, 5), rows.slice(5)])
    data = of_kind(kind, rows, tmp_path, [30_000, 40_000], 20_000)
    source = opened(data)
    assert source.rows == 70_000
    assert sum(source.shards) == 70_000
    assert len(source.shards) == (4 if kind == "files" else 5)
    for _ in range(2):
        found = read(source)
        for name, column in in_memory(rows).items():
            assert torch.equal(found[name], column)
            assert found[name].dtype == column.dtype
    assert max(len(block["y"]) for block in source.read(1)) <= 16_384
    assert opened(data).identity == source.identity


@pytest.mark.parametrize(
    "data",
    [BATCHES, Batches(), DataLoader(TensorDataset(*in_memory(ROWS).values()), batch_size=64)],
    ids=["list", "dictionaries", "DataLoader"],
)
def test_batches_are_read_as_they_are(data: Any) -> None:
    source = open_source(data)
    assert source.rows is None
    assert source.shards is None
    for _ in range(2):
        found = read(source)
        assert all(torch.equal(found[name], c) for name, c in in_memory(ROWS).items())


@pytest.mark.parametrize("kind", ["files", "arrow", "pandas", "polars"])
def test_numbers_of_all_types_become_float_and_nulls_nan(kind: str, tmp_path: Path) -> None:
    columns = {
        "f16": (pa.array(np.float16([1.5, NAN, 2])), [1.5, NAN, 2.0]),
        "f32": (pa.array([1.5, None, 0.1], pa.float32()), [1.5, NAN, float(np.float32(0.1))]),
        "f64": ([1.5, None, 0.1], [1.5, NAN, 0.1]),
        "i64": ([1, None, 2**60], [1.0, NAN, 2.0**60]),
        "u8": (pa.array([1, 255, 0], pa.uint8()), [1.0, 255.0, 0.0]),
        "bool": ([True, None, False], [1.0, NAN, 0.0]),
        "dec": ([Decimal("1.5"), None, Decimal(2)], [1.5, NAN, 2.0]),
    }
    if kind == "polars" or (kind != "files" and not hasattr(nw, "Float16")):
        del columns["f16"]
    rows = pa.table({name: values for name, (values, _) in columns.items()})
    data = of_kind(kind, rows, tmp_path, [3], 2)
    for y, (_, expected) in columns.items():
        x = [name for name in columns if name != y]
        found = read(open_source(data, x[:-1], x[-1:], y))
        assert found["y"].dtype == (torch.float32 if y in ("f16", "f32") else torch.float64)
        assert found["x"].dtype == torch.float64
        np.testing.assert_array_equal(found["y"].numpy(), expected)
        for j, name in enumerate(x[:-1]):
            np.testing.assert_array_equal(found["x"][:, j].numpy(), columns[name][1])


def test_pandas_with_missing_values_of_its_own() -> None:
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None, 3], dtype="Int64"),
            "f": pd.array([1.5, None, 3], dtype="Float32"),
            "b": pd.array([True, None, False], dtype="boolean"),
        },
        index=[5, 5, 1],
    )
    found = read(open_source(frame, ["i"], ["f"], "b"))
    np.testing.assert_array_equal(found["x"][:, 0], [1, NAN, 3])
    np.testing.assert_array_equal(found["r"][:, 0], np.float32([1.5, NAN, 3]))
    np.testing.assert_array_equal(found["y"], [1, NAN, 0])
    assert found["r"].dtype == torch.float32


def test_columns_of_folders_and_columns_that_files_lack(tmp_path: Path) -> None:
    for year, columns in ((2001, {"a": [1.0, 2.0], "y": [0, 1]}), (2002, {"y": [1, 0]})):
        folder = tmp_path / f"year={year}"
        folder.mkdir()
        pq.write_table(pa.table(columns), folder / "part.parquet")
    found = read(open_source(ds.dataset(tmp_path, partitioning="hive"), ["a"], ["year"], "y"))
    np.testing.assert_array_equal(found["x"][:, 0], [1, 2, NAN, NAN])
    assert found["r"][:, 0].tolist() == [2001, 2001, 2002, 2002]
    assert found["y"].tolist() == [0, 1, 1, 0]


def test_only_the_types_of_batches_are_converted() -> None:
    item = ([[1, 2]], np.ones((1, 1), np.float16), torch.tensor([True]))
    block = next(open_source([item]).read(0))
    assert [c.dtype for c in block.values()] == [torch.float64, torch.float32, torch.float64]


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({**dict.fromkeys("abcpqy", 1.0), **columns}, index=range(2))


WRONG_NAMES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown": ({"x": ["a", "z"]}, ValueError, "x must name columns of data, got 'z': its columns"),
    "unknown y": ({"y": "Y"}, ValueError, "y must name columns of data, got 'Y': its columns are"),
    "twice": ({"x": ["a", "a"]}, ValueError, "named once, got 'a' in x and in x"),
    "in both": ({"r": ["a"]}, ValueError, "each column must be named once, got 'a' in x and in r"),
    "one name": ({"x": "a"}, TypeError, "names of columns of data, got 'a': pass ['a']"),
    "number": ({"r": [0]}, TypeError, "r must be a sequence of names of columns of data, got 0 of"),
    "no sequence": ({"r": 0}, TypeError, "r must be a sequence of names of columns of data, got 0"),
    "none": ({"x": []}, ValueError, "x must be a sequence of names of columns of data, got none"),
    "left out": ({"y": None}, ValueError, "y must name columns of data, got None"),
    "list": ({"y": ["y"]}, TypeError, "y must be the name of a column of data, got ['y']"),
    "text": ({"x": ["text"]}, TypeError, "x must name columns with numbers, got 'text' with type"),
    "time": ({"y": "time"}, TypeError, "y must name columns with numbers, got 'time' with type"),
}


@pytest.mark.parametrize("case", WRONG_NAMES)
@pytest.mark.parametrize("kind", ["files", "arrow", "pandas"])
def test_wrong_names_are_refused_before_rows_are_read(case: str, kind: str, tmp_path: Path) -> None:
    changed, error, message = WRONG_NAMES[case]
    pandas = frame(text=["u", "v"], time=pd.Timestamp("2020-01-01"))
    rows = pa.Table.from_pandas(pandas)
    data = pandas if kind == "pandas" else of_kind(kind, rows, tmp_path, [2], 2)
    with pytest.raises(error, match=re.escape(message)):
        open_source(data, **{**NAMES, **changed})


def test_text_in_a_later_file_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    for number, values in enumerate(([1.0], ["u"])):
        columns = pa.table({**{name: [1.0] for name in "bcpqy"}, "a": values})
        pq.write_table(columns, tmp_path / f"{number}.parquet")
    with pytest.raises(TypeError, match=r"got 'a' with type string in .*1\.parquet"):
        opened(ds.dataset(tmp_path))


def test_data_without_rows_is_refused(tmp_path: Path) -> None:
    for data in (ROWS.slice(0, 0), frame()[:0], files(tmp_path / "a", ROWS.slice(0, 0), [0], 1)):
        with pytest.raises(ValueError, match="data has no rows, at least one is needed"):
            opened(data)


def test_other_datasets_are_refused(tmp_path: Path) -> None:
    data = files(tmp_path / "a", ROWS, [1000], 100)
    with pytest.raises(ValueError, match="data must be a dataset without a filter"):
        opened(data.filter(ds.field("a") > 0.0))
    ds.write_dataset(ROWS, tmp_path / "b", format="feather")
    for other in (ds.dataset(tmp_path / "b", format="feather"), ds.dataset(ROWS)):
        with pytest.raises(TypeError, match="data must be a dataset of Parquet files, a table or"):
            opened(other)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ("data.parquet", TypeError, "open files with pyarrow.dataset.dataset(path)"),
        (Path("data"), TypeError, "open files with pyarrow.dataset.dataset(path)"),
        (torch.ones(3), TypeError, "data must be a pyarrow Dataset or Table, a data frame, a Data"),
        ({"x": 1}, TypeError, "or other batches, got {'x': 1}"),
        (None, TypeError, "or other batches, got None"),
        (pl.LazyFrame({"a": [1]}), TypeError, "polars LazyFrame, which has no rows yet: collect"),
        (iter(BATCHES), ValueError, "got list_iterator, which ends after one pass: pass a DataL"),
        (BATCHES, ValueError, "y must be left out where data gives batches"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_data_is_refused(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        open_source(data, **({"y": "y"} if data is BATCHES else {}))


def test_loaders_that_shuffle_are_refused() -> None:
    rows = TensorDataset(*in_memory(ROWS).values())
    for options in (
        {"shuffle": True},
        {"sampler": WeightedRandomSampler([1.0] * 1000, 5)},
        {"batch_sampler": torch.utils.data.BatchSampler(RandomSampler(rows), 10, False)},
    ):
        with pytest.raises(ValueError, match=r"shuffle=False, got one with a [A-Z][a-z]+.*Sam"):
            open_source(DataLoader(rows, **options))


X, R, Y = BATCHES[0]
WRONG_BATCHES: dict[str, tuple[Any, type[Exception], str]] = {
    "no tuple": (X, TypeError, "batch 1 must be a tuple (x, r, y), got Tensor"),
    "two": ((X, R), TypeError, "batch 1 must be a tuple (x, r, y), got tuple of 2"),
    "names": ({"x": X, "y": Y}, ValueError, "batch 1 must have x, r and y, got ['x', 'y']"),
    "text": ((X, R, ["u"] * 300), TypeError, "y of batch 1 must be a numeric array or tensor"),
    "shape": ((X[0], R, Y), ValueError, "x of batch 1 must have shape [rows, x_dim], got (3,)"),
    "y": ((X, R, R), ValueError, "y of batch 1 must have shape [rows], got (300, 2)"),
    "rows": ((X[1:], R, Y), ValueError, "batch 1: row counts differ: x has 299, r has 300"),
    "width": ((X, X, Y), ValueError, "r of batch 1 must be like that of batch 0, torch.float32"),
    "type": ((X, R, Y.double()), ValueError, "torch.float32, got torch.float64"),
}


@pytest.mark.parametrize("case", WRONG_BATCHES)
def test_wrong_batches_are_refused_with_their_number(case: str) -> None:
    item, error, message = WRONG_BATCHES[case]
    with pytest.raises(error, match=re.escape(message)):
        read(open_source([BATCHES[0], item]))


def test_batches_in_another_order_are_noticed() -> None:
    data = list(BATCHES)
    source = open_source(data)
    read(source)
    data.reverse()
    with pytest.raises(ValueError, match="same order at each pass, got another first batch than"):
        read(source)
