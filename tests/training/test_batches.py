"""Batches are the rows of the data in the given order, gathered many at a time and never all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyro_gcm.training import batches as module
from pyro_gcm.training.batches import RowsInMemory


@pytest.mark.parametrize("gathered", [1, 400, 1 << 22], ids=["one batch", "some", "all"])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_batches_are_the_rows_in_the_given_order(
    size: int, gathered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHERED", gathered)
    columns = [torch.randn(50, 3).double(), torch.arange(50.0).double()]
    index = torch.randperm(50)[:45]
    prepared: list[int] = []

    def doubled(rows: list[Tensor]) -> list[Tensor]:
        prepared.append(len(rows[0]))
        return [2.0 * column for column in rows]

    rows = RowsInMemory(columns, index, size, None, doubled)
    got = list(rows.epoch(0))
    assert (rows.rows, rows.steps) == (45, len(got))
    for batch, part in zip(got, index.split(size), strict=True):
        for column, rows in zip(columns, batch, strict=True):
            assert torch.equal(rows, 2.0 * column[part])
    assert sum(prepared) == 45
    # 32 bytes a row: no more than the bound, or than one batch.
    assert max(prepared) <= max(size, gathered // 32)


@pytest.mark.parametrize("first", [0, 1, 3, 6, 7])
def test_an_epoch_goes_on_from_a_batch(first: int) -> None:
    columns = [torch.arange(50.0)]
    unbroken = RowsInMemory(columns, torch.arange(50), 8, torch.Generator().manual_seed(1))
    list(unbroken.epoch(0))
    before = unbroken.state()
    whole = [batch[0].tolist() for batch in unbroken.epoch(1)]
    after = unbroken.state()
    again = RowsInMemory(columns, torch.arange(50), 8, torch.Generator())
    again.load(before)
    assert [batch[0].tolist() for batch in again.epoch(1, first)] == whole[first:]
    if first < 7:
        assert [float(row) for row in again.origin(1, first)] == whole[first]
    assert torch.equal(again.state(), after)
