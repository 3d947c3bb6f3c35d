"""A training run reads the rows where they are, in batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.training import RowsInMemory, Training, TrainingOptions, batches, selected


class Mean:
    """Fits one number to a column; notes the rows of every batch."""

    def __init__(self, column: Tensor, **options: Any) -> None:
        self.seen: list[list[float]] = []
        self.model = torch.nn.Linear(1, 1, bias=False)
        order = torch.Generator().manual_seed(0)
        given = TrainingOptions(progress=False, device="cpu", **options)
        learn, held_out = given.parts(len(column), order)
        self.training = RowsInMemory([column], learn, given.batch_size, order)
        validation = RowsInMemory([column], held_out, given.batch_size)
        parameters = dict(self.model.named_parameters())
        both = self.loss, self.score, self.training, validation
        self.run = Training(self.model, parameters, *both, given, {}).run

    def loss(self, batch: list[Tensor]) -> Tensor:
        self.seen.append(batch[0].tolist())
        return ((batch[0] - self.model.weight) ** 2).sum()

    def score(self, batch: list[Tensor]) -> Tensor:
        self.seen.append([-value for value in batch[0].tolist()])
        return torch.zeros(())


def test_every_epoch_visits_the_training_rows_once_and_reads_them_where_they_are() -> None:
    column = torch.arange(1.0, 51.0)
    trainer = Mean(column, epochs=2, batch_size=7, validation=0.2)
    assert trainer.training.columns[0].data_ptr() == column.data_ptr()
    result = trainer.run()
    values = [value for batch in trainer.seen for value in batch]
    training, held_out = [v for v in values if v > 0], [-v for v in values if v < 0]
    assert sorted(training[:40]) == sorted(training[40:])
    assert training[:40] != training[40:]
    assert held_out[:10] == held_out[10:]
    assert sorted(training[:40] + held_out[:10]) == column.tolist()
    assert result.history.epoch.tolist() == [1, 2]
    assert "history" not in repr(result)


def test_training_rows_are_copied_only_if_others_are_held_out() -> None:
    column = torch.arange(10.0)
    assert selected([column], torch.randperm(10))[0] is column
    assert selected([column], torch.tensor([3, 1]))[0].tolist() == [3.0, 1.0]


# Batches


@pytest.mark.parametrize("gathered", [1, 400, 1 << 22], ids=["one batch", "some", "all"])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_batches_are_the_rows_in_the_given_order(
    size: int, gathered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "GATHERED", gathered)
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


def test_rows_go_on_from_a_state() -> None:
    columns = [torch.arange(50.0)]
    unbroken = RowsInMemory(columns, torch.arange(50), 8, torch.Generator().manual_seed(1))
    list(unbroken.epoch(0))
    assert unbroken.order is not None
    before = unbroken.order.get_state()
    whole = [batch[0].tolist() for batch in unbroken.epoch(1)]
    again = RowsInMemory(columns, torch.arange(50), 8, torch.Generator().set_state(before))
    assert [batch[0].tolist() for batch in again.epoch(1)] == whole
    assert [float(row) for row in again.origin(3)] == whole[3]


@pytest.mark.parametrize("value", [torch.optim.Adam([torch.zeros(1)]), lambda parameters: None])
def test_an_optimiser_that_is_no_function_of_parameters_and_a_rate_is_named(value: Any) -> None:
    x, r, y = torch.randn(20, 3), torch.rand(20, 2), torch.arange(20) % 2
    with pytest.raises(TypeError, match=r"optimizer must be a function \(parameters, lr=...\)"):
        fit(GCM(3, 2), x, r, y, optimizer=value, progress=False)
