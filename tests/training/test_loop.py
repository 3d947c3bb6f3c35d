"""A training run reads the rows where they are, in batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, baselines, fit


@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_every_epoch_visits_the_training_rows_once(validation: float) -> None:
    seen: list[tuple[bool, list[float]]] = []

    class Noting(baselines.MLP):
        def standard_loss(self, *columns: Tensor) -> Tensor:
            seen.append((self.training, columns[1][:, 0].tolist()))
            return super().standard_loss(*columns)

    x, r, y = torch.randn(50, 3), torch.arange(50.0)[:, None], torch.arange(50) % 2
    options: Any = {"standardize": False, "progress": False, "validation": validation}
    result = baselines.fit(Noting(3, 1), x, r, y, epochs=2, batch_size=7, **options)
    training, held_out = (
        [v for t, batch in seen if t is kind for v in batch] for kind in (True, False)
    )
    rows = 50 - round(50 * validation)
    assert sorted(training[:rows]) == sorted(training[rows:])
    assert training[:rows] != training[rows:]
    assert sorted(training[:rows] + held_out[: 50 - rows]) == r[:, 0].tolist()
    assert result.history.epoch.tolist() == [1, 2]
    assert "history" not in repr(result)


# Batches


def test_an_optimiser_that_is_no_function_of_parameters_and_a_rate_is_named() -> None:
    x, r, y = torch.randn(20, 3), torch.rand(20, 2), torch.arange(20) % 2
    for value in (torch.optim.Adam([torch.zeros(1)]), lambda parameters: None):
        with pytest.raises(TypeError, match=r"optimizer must be a function \(parameters, lr=...\)"):
            fit(GCM(3, 2), x, r, y, optimizer=value, progress=False)
