"""Splines of the revenues: values, monotonicity, and knots at quantiles with rows between them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from pyro_gcm import GCM, fit
from pyro_gcm.nets import PiecewiseLinear
from pyro_gcm.nets.revenue_maps import AxisMap
from pyro_gcm.nets.tabular_features import (
    quantile_knots,
)


def spline(rows: torch.Tensor, shape: tuple[int, ...] = (2,), knots: int = 8) -> PiecewiseLinear:
    torch.manual_seed(0)
    part = PiecewiseLinear(rows.shape[1], shape, knots=knots).double()
    part.learn(rows)
    return part


def long_tailed(rows: int = 500) -> torch.Tensor:
    g = torch.Generator().manual_seed(1)
    money = 1000.0 * torch.rand(rows, generator=g).double() ** 6
    money[: rows // 2] = 0.0
    counts = torch.randint(0, 4, (rows,), generator=g).double()
    return torch.stack([money, counts], 1)


def test_value_is_a_sum_of_interpolated_ramps() -> None:
    rows = long_tailed()
    part, r = spline(rows), rows[::50] + 0.3
    weight = part.linear.weight.detach().numpy()
    features = [r.numpy()]
    for column, knots in enumerate(part.knots.numpy()):
        value = r[:, column].numpy()
        ramps = [
            np.interp(value, pair, [0.0, 1.0]) if pair[1] > pair[0] else np.zeros_like(value)
            for pair in itertools.pairwise(knots)
        ]
        features.append(np.stack(ramps, 1))
    ramps = np.concatenate(features[1:], 1)
    standard = (ramps - part.units.loc.numpy()) / part.units.scale.numpy()
    wanted = np.concatenate([features[0], standard], 1) @ weight.T
    np.testing.assert_allclose(part(r).detach().numpy(), wanted, atol=1e-12)


def test_fit_places_the_knots_and_predictions_are_increasing() -> None:
    rows = long_tailed().float()
    x = torch.zeros(len(rows), 1)
    y = (rows[:, 0] > 100.0).float()
    model = GCM(1, 2, revenue_map="piecewise_linear", seed=1)
    levels = torch.linspace(0, 1, model.revenue_map.knots.shape[1] + 2)[1:-1]
    torch.testing.assert_close(model.revenue_map.knots[1], torch.special.ndtri(levels))
    fit(model, x, rows, y, epochs=12, batch_size=64, learning_rate=0.06, progress=False)
    knots = model.revenue_map.knots[1, :4]
    torch.testing.assert_close(
        model.r_standardizer.inverse(torch.stack([knots, knots], 1))[:, 1], torch.arange(4.0)
    )
    money = torch.stack([torch.linspace(0, 1000, 201), torch.ones(201)], 1)
    curve = model.surface(x[:1], money)[0]
    assert (curve.diff() >= 0).all()
    assert curve[2] < 0.3  # at 10 of 1,000; the step at 100 is learned
    assert curve[60] > 0.7


# Knots


def rows_from(column: torch.Tensor, knots: torch.Tensor) -> list[int]:
    """Rows from every knot up to the next one, and from the last one on."""
    ends = torch.cat([knots[1:], torch.tensor([torch.inf])])
    return [int(((column >= a) & (column < b)).sum()) for a, b in zip(knots, ends, strict=True)]


@pytest.mark.parametrize("min_rows", [2, 20, 100])
def test_every_knot_has_its_rows(min_rows: int) -> None:
    g = torch.Generator().manual_seed(min_rows)
    column = torch.randn(1000, generator=g).mul(3.0).round() / 2.0
    knots = quantile_knots(column, 64, min_rows)
    assert knots[0] == column.min()
    assert min(rows_from(column, knots)) >= min_rows
    # One more knot anywhere would leave some of them with fewer rows.
    assert max(rows_from(column, knots)) < 2 * min_rows + column.unique(return_counts=True)[1].max()


def test_a_bend_is_as_wide_as_the_distance_to_its_neighbours() -> None:
    rows = torch.linspace(0.0, 30.0, 31)[:, None]
    for knots, wanted in ((1, [1.0]), (2, [10.0, 10.0])):
        axis = AxisMap((1,), knots)
        axis.learn(rows)
        assert axis.widths.tolist() == pytest.approx(wanted)
