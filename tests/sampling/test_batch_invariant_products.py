"""A row of a linear layer has the same bits wherever it stands."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm.sampling.base_samples import BatchInvariantProducts


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("columns", [1, 3, 5, 6, 9, 14, 33])
@pytest.mark.parametrize("width", [4, 16])
def test_a_row_has_the_same_bits_in_every_place(
    columns: int, width: int, dtype: torch.dtype
) -> None:
    layer = torch.nn.Linear(columns, width).to(dtype)
    rows = torch.randn(64, columns, dtype=dtype)
    with BatchInvariantProducts():
        wanted = layer(rows)
        for shift in range(1, 64):
            assert torch.equal(layer(rows.roll(shift, 0)), wanted.roll(shift, 0))


def test_layers_inside_compute_what_they_are() -> None:
    layer = torch.nn.Linear(5, 3, bias=False).double()
    rows = torch.randn(2, 7, 5, dtype=torch.float64)
    with BatchInvariantProducts():
        inside = layer(rows)
    torch.testing.assert_close(inside, rows @ layer.weight.T)
