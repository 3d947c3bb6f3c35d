"""Missing values as inputs."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm.nets import with_missing_indicators

NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_values_are_followed_by_one_indicator_per_column(dtype: torch.dtype) -> None:
    infinite = float("inf")  # which is not missing
    columns = torch.tensor([[NAN, 2.0, 0.0], [infinite, NAN, NAN]], dtype=dtype)
    wanted = torch.tensor([[0.0, 2.0, 0.0, 1.0, 0.0, 0.0], [infinite, 0.0, 0.0, 0.0, 1.0, 1.0]])
    for index in (
        0,
        slice(None),
        torch.tensor([[0, 1], [1, 0]]),
    ):
        given = columns[index]
        marked = with_missing_indicators(given)
        assert marked.dtype == dtype
        assert torch.equal(marked.float(), wanted[index])
        assert torch.equal(given.isnan(), columns[index].isnan())
