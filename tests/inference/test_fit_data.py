"""Rows that are read in every epoch train as those in memory do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor
from training_runs import goes_on, same, weights

from pyro_gcm import GCM, fit
from pyro_gcm.inference import training_data
from pyro_gcm.io import DamagedFile
from pyro_gcm.streams import BatchRows, ParquetRows
from pyro_gcm.training import FitResult

ROWS = 300
NAMES: dict[str, Any] = {"x": ["a", "b"], "r": ["price"], "y": "sold"}


def rows() -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    x, r = 5.0 + torch.randn(ROWS, 2, generator=g), torch.rand(ROWS, 1, generator=g)
    return x, r, (x[:, 0] + 3.0 * r[:, 0] > 6.0).float()


def frame() -> pd.DataFrame:
    x, r, y = rows()
    return pd.DataFrame({"sold": y, "a": x[:, 0], "b": x[:, 1], "price": r[:, 0]})


def files(folder: Path, count: int = 3, group: int = 37) -> ds.Dataset:
    size = ROWS // count
    for i in range(count):
        part = pa.Table.from_pandas(frame().iloc[i * size : (i + 1) * size])
        pq.write_table(part, folder / f"{i}.parquet", row_group_size=group)
    return ds.dataset(folder)


def batches(size: int = 50) -> list[tuple[Tensor, ...]]:
    return [tuple(c[i : i + size] for c in rows()) for i in range(0, ROWS, size)]


def read(data: Any, **options: Any) -> ParquetRows:
    return ParquetRows(data, **{**NAMES, **options})


def trained(*columns: Any, **options: Any) -> tuple[GCM, FitResult]:
    model = GCM(2, 1, hidden=4, seed=0)
    common = {"epochs": 3, "batch_size": 32, "num_particles": 4, "progress": False, "seed": 1}
    return model, fit(model, *columns, **{**common, **options})


def test_what_the_rows_come_in_makes_no_difference(tmp_path: Path) -> None:
    model, result = trained(read(files(tmp_path, 1, ROWS)))
    for data in (
        batches(50),
        batches(7),
        torch.utils.data.DataLoader(batches(60), batch_size=None),
        BatchRows(batches(50)),
    ):
        other, again = trained(data)
        assert same(weights(model), weights(other))
        assert [row["loss"] for row in again.rows] == [row["loss"] for row in result.rows]
    assert model.training_summary is not None
    assert model.training_summary["columns"] == {"x": ["a", "b"], "r": ["price"]}
    assert other.training_summary["columns"] == {"x": None, "r": None}


def test_units_are_those_of_rows_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory, result = trained(*rows())
    monkeypatch.setattr(training_data, "SAMPLE_ROWS", 50)  # of which the units do not depend
    model, streamed = trained(read(files(tmp_path)))
    for mine, theirs in (
        (model.x_standardizer, in_memory.x_standardizer),
        (model.r_standardizer, in_memory.r_standardizer),
    ):
        torch.testing.assert_close(mine.loc, theirs.loc, rtol=1e-6, atol=0)
        torch.testing.assert_close(mine.scale, theirs.scale, rtol=1e-6, atol=0)
    assert streamed.rows[-1]["step"] == result.rows[-1]["step"] == 30
    assert streamed.rows[-1]["loss"] == pytest.approx(result.rows[-1]["loss"], abs=0.05)


@pytest.mark.filterwarnings("error:y has the same value")
def test_a_rare_outcome_beside_the_sample_is_something_to_learn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_data, "SAMPLE_ROWS", 5)
    x, r, _ = rows()
    y = (torch.arange(ROWS) == 7).float()
    trained([(x, r, y)], epochs=1)


@pytest.mark.parametrize("source", ["files", "batches"])
def test_a_run_goes_on_after_an_epoch(source: str, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    dataset = files(tmp_path / "rows")
    options: Any = {"validation": 0.2, "patience": 2}
    checkpoint = tmp_path / "saved" / "run"

    def run(**more: Any) -> tuple[GCM, FitResult]:
        data = read(dataset, memory=1 << 20) if source == "files" else batches()
        return trained(data, **options, **more)

    goes_on(run, checkpoint, 20)


def _with(column: str, row: int, value: Any) -> pd.DataFrame:
    table = frame().astype(float)
    table.loc[row, column] = value
    return table


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (_with("a", 123, float("inf")), {}, r"x .*row 123, column 'a' of .*0\.parquet"),
        (_with("price", 9, float("nan")), {}, "r .*row 9"),
        (_with("sold", 200, 2.0), {}, "y must be 0 or 1"),
        (frame(), {"validation": 1e-6}, "validation=1e-06 keeps none of 300 rows"),
        (frame().drop(columns="a").assign(c=1.0), {}, "a does not exist"),
    ],
)
def test_what_is_wrong_is_said_before_training(
    table: pd.DataFrame, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "0.parquet")
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        trained(read(ds.dataset(tmp_path)), **options)


def test_rows_that_no_model_can_read_are_refused() -> None:
    with pytest.raises(TypeError, match="x must come with r and y"):
        trained(rows()[0])
    with pytest.raises(ValueError, match="x has 1 columns, the model was built for x_dim=2"):
        trained([(x[:, :1], r, y) for x, r, y in batches()])
    with pytest.raises(ValueError, match="sample_weight"):
        trained(batches(), sample_weight=torch.ones(ROWS))
    times = GCM(2, 1, response="survival", seed=0)  # outcomes of several numbers
    with pytest.raises(ValueError, match="y must be SurvivalTimes"):
        fit(times, batches(), progress=False)


@pytest.mark.parametrize("size", [0, 3, 900, -1])
def test_a_cut_file_is_named(size: int, tmp_path: Path) -> None:
    data = files(tmp_path)
    os.truncate(tmp_path / "1.parquet", size % os.path.getsize(tmp_path / "1.parquet"))
    with pytest.raises(DamagedFile, match=r"1\.parquet cannot be read: "):
        trained(read(data))


def test_files_that_change_during_training_are_noticed(tmp_path: Path) -> None:
    data = files(tmp_path)

    def callback(step: int) -> None:
        if step == 10:  # the last batch of the first epoch
            pq.write_table(pa.Table.from_pandas(frame().iloc[100:150]), tmp_path / "1.parquet")

    with pytest.raises((ValueError, OSError), match=r"1\.parquet cannot be read|rows that it had"):
        trained(read(data), callback=callback, epochs=2)
