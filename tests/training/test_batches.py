"""Batches are the rows of the data in the given order, gathered many at a time and never all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyro_gcm.training import batches as module
from pyro_gcm.training.batches import batches


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

    got = list(batches(columns, index, size, doubled))
    for batch, part in zip(got, index.split(size), strict=True):
        for column, rows in zip(columns, batch, strict=True):
            assert torch.equal(rows, 2.0 * column[part])
    assert sum(prepared) == 45
    # 32 bytes a row: no more than the bound, or than one batch.
    assert max(prepared) <= max(size, gathered // 32)
