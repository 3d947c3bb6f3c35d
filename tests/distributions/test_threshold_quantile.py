"""Quantile responses: the pinball loss as a density, at a monotone quantile curve."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from scipy import integrate
from torch import Tensor

from pyro_gcm.distributions import OrderEvent, ThresholdQuantile

LEVELS = [0.01, 0.3, 0.5, 0.9]
levels = pytest.mark.parametrize("level", LEVELS, ids="level={:g}".format)


def response(level: Tensor, scale: float = 1.7) -> ThresholdQuantile:
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
    p_y = response(r, scale)
    y = torch.linspace(-40.0, 40.0, 81, dtype=torch.float64)
    log_p, loss = p_y.log_prob(y), pinball(y - p_y.loc, r) / scale
    torch.testing.assert_close(log_p - log_p[0], loss[0] - loss, rtol=1e-12, atol=1e-12)


@levels
def test_density_integrates_to_one_with_the_level_below_the_quantile(level: float) -> None:
    p_y = response(torch.tensor(level, dtype=torch.float64))
    middle = p_y.loc.item()

    def density(y: float) -> float:
        return p_y.log_prob(torch.tensor(y, dtype=torch.float64)).exp().item()

    # Each side decays with scale/(1 - level) or scale/level.
    below = integrate.quad(density, middle - 60.0 * p_y.left_scale.item(), middle)[0]
    above = integrate.quad(density, middle, middle + 60.0 * p_y.right_scale.item())[0]
    assert below == pytest.approx(level, abs=1e-7)
    assert below + above == pytest.approx(1.0, abs=1e-7)


@levels
def test_location_is_the_formula_of_appendix_d3(level: float) -> None:
    p_y = response(torch.tensor(level, dtype=torch.float64))
    p = p_y.event.cost.base_dist.cdf(p_y.event.revenue).prod()
    torch.testing.assert_close(p_y.loc, 2.0 * torch.special.ndtri(p) + 3.0)


def test_quantiles_never_cross() -> None:
    curve = response(torch.linspace(1e-4, 1.0 - 1e-4, 2000, dtype=torch.float64)).loc
    assert (curve.diff() > 0.0).all()


def test_share_of_draws_below_the_quantile_is_the_level() -> None:
    level = torch.tensor(LEVELS, dtype=torch.float64)
    p_y = response(level)
    share = (p_y.sample((20_000,)) < p_y.loc).double().mean(0)
    assert ((share - level).abs() < 5.0 * (level * (1.0 - level) / 20_000).sqrt()).all()


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


def test_draw_of_the_costs_says_nothing_more_about_y() -> None:
    p_y = response(torch.tensor(LEVELS, dtype=torch.float64))
    c = p_y.event.cost.sample()
    assert p_y.given_cost(c) is p_y
    assert p_y.marginalize(p_y.event.cost) is p_y
    posterior = p_y.cost_posterior(p_y.sample())
    assert posterior.batch_shape == (4,)
    assert torch.equal(posterior.log_prob(c), p_y.event.cost.log_prob(c).expand(4))
