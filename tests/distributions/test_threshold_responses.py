"""Gaussian and quantile responses: their formulas, and their explicit programs."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import event_log_probs, normal_quantile, worst_error
from order_event_cases import atoms, dtypes, threshold_response
from torch import Tensor

from pyro_gcm.distributions import OrderEvent, ThresholdNormal, ThresholdQuantile

shapes = pytest.mark.parametrize("shape", [(1,), (4,), (4, 1), (2, 3), (4, 4)], ids=str)


def costs_on_each_side(event: OrderEvent) -> tuple[Tensor, Tensor]:
    """A cost that every revenue misses and one that every revenue exceeds."""
    return event.revenue + 0.1, event.revenue - 0.1


@shapes
@atoms
def test_density_averaged_over_both_events_is_the_closed_form(
    infinite: bool, shape: tuple[int, ...]
) -> None:
    p_y = threshold_response(shape, infinite=infinite)
    p, (miss_cost, hit_cost) = p_y.event.mean, costs_on_each_side(p_y.event)
    y = p_y.mean + p_y.scale * torch.linspace(-9.0, 9.0, 37, dtype=torch.float64)
    for miss in (miss_cost, torch.full_like(miss_cost, math.inf)):
        average = (1.0 - p) * p_y.given_cost(miss).log_prob(y).exp()
        average = average + p * p_y.given_cost(hit_cost).log_prob(y).exp()
        torch.testing.assert_close(average.log(), p_y.log_prob(y), rtol=1e-12, atol=1e-12)


def test_draws_given_the_cost_have_the_density() -> None:
    scales = [(0.7, 1.3), (2.0, 0.3), (0.2, 3.0)]
    for scale, threshold_scale in scales:
        for gap in (-3.0, 0.0, 1.5):
            cost = dist.Normal(torch.zeros(1).double(), 1.0).to_event(1)
            event = OrderEvent(cost, torch.tensor([gap], dtype=torch.float64))
            units = (torch.tensor(v, dtype=torch.float64) for v in (0.4, threshold_scale, scale))
            p_y = ThresholdNormal(event, *units)
            center, reach = p_y.mean.item(), scale * (12.0 + 2.0 * abs(gap))
            grid = torch.linspace(center - reach, center + reach, 40_001, dtype=torch.float64)
            for side in costs_on_each_side(event):
                given = p_y.given_cost(side)
                below = torch.cumulative_trapezoid(given.log_prob(grid).exp(), grid)
                case = scale, threshold_scale, gap, side
                assert below[-1].item() == pytest.approx(1.0, abs=1e-6), case
                draws = given.sample((20_000,)).sort().values
                place = torch.searchsorted(grid, draws).clamp(1, len(below)) - 1
                apart = below[place] - torch.arange(1, 20_001) / 20_000
                # Exceeded in 3 of 10 million (Kolmogorov and Smirnov).
                assert apart.abs().max() < 2.8 / math.sqrt(20_000) + 1e-3, case
                for name in ("mean", "variance"):
                    with pytest.raises(NotImplementedError):
                        getattr(given, name)


@dtypes
@pytest.mark.parametrize("u", [-40.0, -12.5, -1.0, 0.0, 3.0, 40.0], ids="u={:g}".format)
def test_mean_is_the_formula_of_appendix_d3_in_both_tails(u: float, dtype: torch.dtype) -> None:
    scale, threshold_scale, threshold_loc = (torch.tensor(v, dtype=dtype) for v in (0.7, 1.3, 5.0))
    cost = dist.Normal(torch.zeros(2, dtype=dtype), 1.0).to_event(1)
    event = OrderEvent(cost, torch.full((2,), u, dtype=dtype))
    p_y = ThresholdNormal(event, threshold_loc, threshold_scale, scale)
    log_zero, log_one = event_log_probs("Normal", [[mpf(u), mpf(u)]])
    smaller, sign = (log_one, 1) if log_one < log_zero else (log_zero, -1)
    with mp.workdps(60):
        quantile = sign * normal_quantile(smaller, start=-max(1.0, abs(u)))
        spread = mp.hypot(mpf(scale.item()), mpf(threshold_scale.item()))
        mean = spread * quantile + mpf(threshold_loc.item())
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    assert worst_error([p_y.mean.item()], [mean], floor=1.0) < tolerance
    assert p_y.variance.item() == pytest.approx(0.49)


@pytest.mark.parametrize("distance", [-40.0, -9.0, 6.0, 12.0], ids="a={:g}".format)
def test_weights_are_equal_however_far_y_lies_from_the_threshold(distance: float) -> None:
    p_y = threshold_response((2,))
    y = p_y.threshold_loc + distance * p_y.threshold_scale
    posterior = p_y.cost_posterior(y)
    for c in costs_on_each_side(p_y.event):
        joint = p_y.event.cost.log_prob(c) + p_y.given_cost(c).log_prob(y)
        weight = joint - posterior.log_prob(c)
        torch.testing.assert_close(weight, p_y.log_prob(y), rtol=1e-12, atol=1e-12)


# Quantile responses: the pinball loss as a density, at a monotone quantile curve


LEVELS = [0.01, 0.3, 0.5, 0.9]
levels = pytest.mark.parametrize("level", LEVELS, ids="level={:g}".format)


def quantile_response(level: Tensor, scale: float = 1.7) -> ThresholdQuantile:
    cost = dist.Normal(torch.tensor([0.4, -0.2], dtype=torch.float64), 1.0).to_event(1)
    event = OrderEvent(cost, torch.special.ndtri(level).unsqueeze(-1) + torch.ones(2))
    loc, spread, unit = (torch.tensor(v, dtype=torch.float64) for v in (3.0, 2.0, scale))
    return ThresholdQuantile(event, loc, spread, level, unit)


def pinball(error: Tensor, level: Tensor) -> Tensor:
    return torch.maximum(level * error, (level - 1.0) * error)


@levels
@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0], ids="scale={:g}".format)
def test_log_density_differences_are_minus_pinball_loss_differences(
    level: float, scale: float
) -> None:
    r = torch.tensor(level, dtype=torch.float64)
    p_y = quantile_response(r, scale)
    y = torch.linspace(-40.0, 40.0, 81, dtype=torch.float64)
    log_p, loss = p_y.log_prob(y), pinball(y - p_y.loc, r) / scale
    torch.testing.assert_close(log_p - log_p[0], loss[0] - loss, rtol=1e-12, atol=1e-12)


@levels
def test_location_is_the_formula_of_appendix_d3(level: float) -> None:
    p_y = quantile_response(torch.tensor(level, dtype=torch.float64))
    p = p_y.event.cost.base_dist.cdf(p_y.event.revenue).prod()
    torch.testing.assert_close(p_y.loc, 2.0 * torch.special.ndtri(p) + 3.0)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_level_at_its_end_keeps_the_density_and_its_gradient_finite(level: float) -> None:
    cost = dist.Normal(torch.zeros(2), 1.0).to_event(1)
    threshold_loc = torch.tensor(0.5, requires_grad=True)
    p_y = ThresholdQuantile(
        OrderEvent(cost, torch.zeros(2)),
        threshold_loc,
        torch.tensor(1.0),
        torch.tensor(level),
        torch.tensor(1.0),
    )
    log_p = p_y.log_prob(torch.tensor([-3.0, 3.0]))
    log_p.sum().backward()
    assert log_p.isfinite().all()
    assert threshold_loc.grad.isfinite()
