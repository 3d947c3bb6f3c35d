"""Missing values as inputs."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm.nets import with_missing_indicators

NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_values_are_followed_by_one_indicator_per_column(dtype: torch.dtype) -> None:
    columns = torch.tensor([[NAN, 2.0, 0.0], [-1.0, NAN, NAN]], dtype=dtype)
    marked = with_missing_indicators(columns)
    assert marked.dtype == dtype
    assert marked.tolist() == [[0.0, 2.0, 0.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0, 1.0, 1.0]]


@pytest.mark.parametrize("batch_shape", [(), (5,), (7, 5)], ids=str)
def test_number_of_columns_doubles(batch_shape: tuple[int, ...]) -> None:
    columns = torch.randn(*batch_shape, 3)
    assert with_missing_indicators(columns).shape == (*batch_shape, 6)
    assert torch.equal(with_missing_indicators(columns)[..., :3], columns)


def test_infinite_values_are_not_missing_and_the_input_is_unchanged() -> None:
    columns = torch.tensor([[float("inf"), NAN]])
    assert with_missing_indicators(columns).tolist() == [[float("inf"), 0.0, 0.0, 1.0]]
    assert columns.isnan().tolist() == [[False, True]]
