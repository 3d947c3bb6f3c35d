"""Knots at quantiles, with enough rows between them."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm.nets.piecewise_linear import padded_knots, quantile_knots, ramps, slopes_between


def rows_from(column: torch.Tensor, knots: torch.Tensor) -> list[int]:
    """Rows from every knot up to the next one, and from the last one on."""
    ends = torch.cat([knots[1:], torch.tensor([torch.inf])])
    return [int(((column >= a) & (column < b)).sum()) for a, b in zip(knots, ends, strict=True)]


def test_few_values_are_the_knots() -> None:
    column = torch.tensor([3.0, 1.0, torch.nan, 1.0, 2.0])
    assert quantile_knots(column, 5).tolist() == [1.0, 2.0, 3.0]
    assert padded_knots(column, 5).tolist() == [1.0, 2.0, 3.0, 3.0, 3.0]


def test_a_frequent_value_takes_one_knot() -> None:
    column = torch.cat([torch.zeros(900), torch.arange(1.0, 101.0)])
    knots = quantile_knots(column, 11)
    assert len(knots) == 11
    assert (knots == 0.0).sum() == 1
    assert (knots[1:].diff() > 0.0).all()


@pytest.mark.parametrize("min_rows", [2, 20, 100])
def test_every_knot_has_its_rows(min_rows: int) -> None:
    g = torch.Generator().manual_seed(min_rows)
    column = torch.randn(1000, generator=g).mul(3.0).round() / 2.0
    knots = quantile_knots(column, 64, min_rows)
    assert knots[0] == column.min()
    assert min(rows_from(column, knots)) >= min_rows
    # One more knot anywhere would leave some of them with fewer rows.
    assert max(rows_from(column, knots)) < 2 * min_rows + column.unique(return_counts=True)[1].max()


def test_too_few_rows_leave_one_knot() -> None:
    assert quantile_knots(torch.arange(9.0), 8, 20).tolist() == [0.0]


def test_ramps_rise_from_0_to_1_between_their_knots() -> None:
    knots = torch.tensor([[0.0, 1.0, 3.0, 3.0]])
    values = torch.tensor([[-1.0], [0.5], [2.0], [9.0]])
    wanted = [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 0.0]]
    assert ramps(values, knots, slopes_between(knots))[:, 0].tolist() == wanted
