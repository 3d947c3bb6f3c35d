"""`fit(data=...)`: rows that are read in every epoch train as those in memory do."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor
from training_runs import goes_on, same, stop_at, weights

from pyro_gcm import GCM, fit
from pyro_gcm.inference import training_data
from pyro_gcm.io import DamagedFile
from pyro_gcm.training import Diverged, FitResult, gathered

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


def trained(**options: Any) -> tuple[GCM, FitResult]:
    model = GCM(2, 1, hidden=4, seed=0)
    common = {"epochs": 3, "batch_size": 32, "num_particles": 4, "progress": False, "seed": 1}
    return model, fit(model, **gathered({**common, **options}))


def test_what_the_rows_come_in_makes_no_difference() -> None:
    model, result = trained(data=frame(), **NAMES)
    for data in (
        batches(50),
        batches(7),
        torch.utils.data.DataLoader(batches(60), batch_size=None),
    ):
        other, again = trained(data=data)
        assert same(weights(model), weights(other))
        assert [row["loss"] for row in again.rows] == [row["loss"] for row in result.rows]
    assert model.training_summary is not None
    assert model.training_summary["columns"] == {"x": ["a", "b"], "r": ["price"]}
    assert other.training_summary["columns"] == {"x": None, "r": None}


def test_units_are_those_of_rows_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, r, y = rows()
    in_memory, result = trained(x=x, r=r, y=y)
    monkeypatch.setattr(training_data, "SAMPLE_ROWS", 50)  # of which the units do not depend
    model, streamed = trained(data=files(tmp_path), **NAMES)
    for mine, theirs in (
        (model.x_standardizer, in_memory.x_standardizer),
        (model.r_standardizer, in_memory.r_standardizer),
    ):
        torch.testing.assert_close(mine.loc, theirs.loc, rtol=1e-6, atol=0)
        torch.testing.assert_close(mine.scale, theirs.scale, rtol=1e-6, atol=0)
    assert streamed.rows[-1]["step"] == result.rows[-1]["step"] == 30
    assert streamed.rows[-1]["loss"] == pytest.approx(result.rows[-1]["loss"], abs=0.05)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("source", ["files", "batches"])
def test_a_run_goes_on_after_an_epoch(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows").mkdir()
    dataset = files(tmp_path / "rows")
    data = {"data": dataset, **NAMES} if source == "files" else {"data": batches()}
    # Windows of two batches.
    monkeypatch.setattr(training_data.StreamedData, "window_rows", property(lambda self: 64))
    options = {**data, "validation": 0.2, "patience": 2}
    checkpoint = tmp_path / "saved" / "run"
    goes_on(lambda **more: trained(**options, **more), checkpoint, 20)
    with pytest.raises(KeyboardInterrupt):
        trained(**options, checkpoint=checkpoint, callback=stop_at(11))
    other = {**options, "data": files(tmp_path / "rows", group=41), **NAMES}
    with pytest.raises(ValueError, match="checkpoint is of another run: "):
        trained(**other, checkpoint=checkpoint)


def test_the_message_of_a_divergence_names_rows_of_the_data(tmp_path: Path) -> None:
    # Every step multiplies the weights by -1e20, so that the second one overflows.
    exploding = functools.partial(torch.optim.SGD, weight_decay=1e20)
    with pytest.raises(Diverged, match=r"in epoch 1 \(rows \d+, \d+, \d+, \d+, \d+, \.\.\.\)"):
        trained(data=files(tmp_path), **NAMES, optimizer=exploding, learning_rate=1.0)


def _with(column: str, row: int, value: Any) -> pd.DataFrame:
    table = frame().astype(float)
    table.loc[row, column] = value
    return table


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": _with("a", 123, float("inf"))}, r"x .*row 123, column 'a' of data"),
        ({"data": _with("price", 9, float("nan"))}, "r .*row 9"),
        ({"data": _with("sold", 200, 2.0)}, "y must be 0 or 1"),
        ({"data": _with("b", slice(None), float("nan"))}, "x .*got nan in row 0, column 'b'"),
        ({"data": frame(), "validation": 1e-6}, "validation=1e-06 keeps none of 300 rows"),
        ({"x": ["a", "c"]}, r"'c'"),
        ({"y": None}, "y must name columns of data, got None"),
        ({"x": ["a"]}, "x_dim"),
        ({"sample_weight": torch.ones(ROWS)}, "sample_weight must be left out with data"),
        ({"memory": 100}, "memory must be "),
        ({"data": 3}, "data must be a pyarrow Dataset or Table"),
    ],
)
def test_what_is_wrong_is_said_before_training(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        trained(**{"data": frame(), **NAMES, **options})


def test_rows_that_no_model_can_read_are_refused() -> None:
    with pytest.raises((TypeError, ValueError), match="x must be"):
        trained()
    with pytest.raises(TypeError, match="got str 'sold'; to name a column, give the table"):
        fit(GCM(2, 1), **NAMES)
    times = GCM(2, 1, response="survival", seed=0)  # outcomes of several numbers
    with pytest.raises(ValueError, match="y must be SurvivalTimes"):
        fit(times, **NAMES, data=frame().assign(sold=1.0), progress=False)


def _written_anew(folder: Path, data: Any, group: int = 37, value: float = 0.5) -> None:
    changed = pa.Table.from_pandas(frame().iloc[100:200].assign(price=value))
    pq.write_table(changed, folder / "1.parquet", row_group_size=group)


def _one_value(folder: Path, data: Any) -> None:
    changed = frame().iloc[100:200]
    changed.iloc[77, 1] += 1
    before = os.stat(folder / "1.parquet")
    pq.write_table(pa.Table.from_pandas(changed), folder / "1.parquet", row_group_size=37)
    os.utime(folder / "1.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))


def _cut(folder: Path, data: Any) -> None:
    os.truncate(folder / "1.parquet", 900)


def _in_frame(folder: Path, data: Any) -> None:
    data.iloc[77, 1] += 1


def _in_batch(folder: Path, data: Any) -> None:
    data[4][0][3, 1] += 1e-6


def _appended(folder: Path, data: Any) -> None:
    data.append(data[0])


#: What is read, how it is changed in the first epoch, and what is said.
CHANGES: dict[str, tuple[str, Callable[..., None], str]] = {
    "all values": ("files", _written_anew, r"1\.parquet"),
    "row groups": ("files", functools.partial(_written_anew, group=20), r"1\.parquet"),
    "one value": ("files", _one_value, r"1\.parquet"),
    "a cut file": ("files", _cut, r"1\.parquet cannot be read"),
    "no file": ("files", lambda folder, data: os.remove(folder / "1.parquet"), r"1\.parquet"),
    "a frame": ("frame", _in_frame, "row 0 of data on: do not change it during training"),
    "a batch": ("batches", _in_batch, "row 0 of data on: do not change it during training"),
    "more batches": ("batches", _appended, "row 0 of data on: do not change it during training"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_rows_that_change_during_training_are_noticed(case: str, tmp_path: Path) -> None:
    kind, change, message = CHANGES[case]
    data = {"files": lambda: files(tmp_path), "frame": frame, "batches": batches}[kind]()
    names = {} if kind == "batches" else NAMES

    def callback(step: int) -> None:
        if step == 10:  # the last batch of the first epoch
            change(tmp_path, data)

    with pytest.raises((ValueError, FileNotFoundError), match=message):
        trained(data=data, **names, callback=callback, epochs=2)


@pytest.mark.parametrize("size", [0, 3, 900, -1])
def test_a_cut_file_is_named(size: int, tmp_path: Path) -> None:
    data = files(tmp_path)
    os.truncate(tmp_path / "1.parquet", size % os.path.getsize(tmp_path / "1.parquet"))
    with pytest.raises(DamagedFile, match=r"1\.parquet cannot be read: "):
        trained(data=data, **NAMES)
