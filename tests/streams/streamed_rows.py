"""Rows in memory, in files and in batches, and what streams make of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import torch
from torch import Tensor

from pyro_gcm.streams import ParquetRows, ShuffledRows, Source

NAMES: dict[str, Any] = {"x": ["a", "b", "c"], "r": ["p", "q"], "y": "y"}


def table(rows: int = 1000, dtype: Any = np.float32) -> pa.Table:
    """Random columns; y is the number of the row."""
    generator = np.random.default_rng(rows)
    names = [*NAMES["x"], *NAMES["r"]]
    columns = {name: generator.normal(3.0, 2.0, rows).astype(dtype) for name in names}
    return pa.table({**columns, "y": np.arange(rows, dtype=dtype)})


def files(folder: Path, rows: pa.Table, per_file: Sequence[int], row_group: int) -> ds.Dataset:
    """The rows in files of given numbers of rows."""
    folder.mkdir(exist_ok=True)
    first = 0
    for number, count in enumerate(per_file):
        pq.write_table(
            rows.slice(first, count), folder / f"part-{number:03}.parquet", row_group_size=row_group
        )
        first += count
    assert first == len(rows)
    return ds.dataset(folder)


def in_memory(rows: pa.Table) -> dict[str, Tensor]:
    def columns(names: list[str]) -> Tensor:
        return torch.from_numpy(np.stack([rows[n].to_numpy() for n in names], 1))

    return {"x": columns(NAMES["x"]), "r": columns(NAMES["r"]), "y": columns(["y"])[:, 0]}


def in_batches(rows: pa.Table, size: int) -> list[tuple[Tensor, ...]]:
    return list(zip(*(column.split(size) for column in in_memory(rows).values()), strict=True))


def opened(data: Any) -> ParquetRows:
    return ParquetRows(data, **NAMES)


def read(source: Source) -> dict[str, Tensor]:
    """All rows in the order of the shards."""
    blocks = [b for shard in range(len(source.shards or [0])) for b in source.read(shard)]
    return {name: torch.cat([block[name] for block in blocks]) for name in ("x", "r", "y")}


def surveyed(source: Source, **options: Any) -> ShuffledRows:
    defaults: dict[str, Any] = {
        "seed": 3,
        "share": 0.2,
        "sample_rows": 100,
        "check": lambda block, first: None,
        "progress": False,
    }
    return ShuffledRows(source, **{**defaults, **options})
