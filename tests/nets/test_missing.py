"""Missing values as inputs."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm.nets import with_missing

NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_values_come_first_then_one_indicator_a_column(dtype: torch.dtype) -> None:
    columns = torch.tensor([[NAN, 2.0, 0.0], [-1.0, NAN, NAN]], dtype=dtype)
    marked = with_missing(columns)
    assert marked.dtype == dtype
    assert marked.tolist() == [[0.0, 2.0, 0.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0, 1.0, 1.0]]


@pytest.mark.parametrize("batch_shape", [(), (5,), (7, 5)], ids=str)
def test_number_of_columns_doubles(batch_shape: tuple[int, ...]) -> None:
    columns = torch.randn(*batch_shape, 3)
    assert with_missing(columns).shape == (*batch_shape, 6)
    assert torch.equal(with_missing(columns)[..., :3], columns)


def test_infinite_value_is_not_missing_and_the_input_is_left_alone() -> None:
    columns = torch.tensor([[float("inf"), NAN]])
    assert with_missing(columns).tolist() == [[float("inf"), 0.0, 0.0, 1.0]]
    assert columns.isnan().tolist() == [[False, True]]
