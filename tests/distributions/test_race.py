"""The race of latent costs for unordered classes, against quadratures of the race itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from pyro_gcm.distributions import MinimumGumbel, OrderEvent, RacedClass

#: Revenues, locations and scales of the costs of three classes: usual, far, and on a large scale.
RACES = {
    "near": ([0.3, -0.4, 1.0], [0.1, 0.5, 0.9], [1.0, 0.7, 1.3]),
    "far": ([0.0, 25.0, -8.0], [0.0, 1.0, 0.5], [0.5, 1.0, 2.0]),
    "large": ([900.0, 1200.0, 1000.0], [850.0, 1000.0, 990.0], [30.0, 60.0, 20.0]),
}


def raced(name: str, dtype: torch.dtype = torch.float64) -> RacedClass:
    h, loc, scale = (torch.tensor(column, dtype=dtype) for column in RACES[name])
    return RacedClass(OrderEvent(MinimumGumbel(loc, scale).to_event(1), h))


def by_quadrature(name: str, k: int) -> float:
    """Pr(margin k is the largest), from scipy's left-skewed Gumbel costs."""
    h, loc, scale = map(np.array, RACES[name])
    costs = [stats.gumbel_l(loc=m, scale=s) for m, s in zip(loc, scale, strict=True)]

    # The trapezoidal rule over the margin of class k, of which both ends are flat.
    best = max((h - loc) / scale)
    margin = np.linspace(best - 8.0, best + 60.0, 20_001)
    log_f = costs[k].logpdf(h[k] - scale[k] * margin) + np.log(scale[k])
    for j in {0, 1, 2} - {k}:  # which are late
        log_f = log_f + costs[j].logsf(h[j] - scale[j] * margin)
    return float(integrate.trapezoid(np.exp(log_f), margin))


def test_a_cost_has_density_and_moments_of_scipys_left_skewed_gumbel() -> None:
    loc, scale = torch.tensor([0.1, -2.0]).double(), torch.tensor([0.7, 3.0]).double()
    value = torch.linspace(-9.0, 4.0, 14).double().unsqueeze(-1)
    ours, scipys = MinimumGumbel(loc, scale), stats.gumbel_l(loc.numpy(), scale.numpy())
    want = torch.from_numpy(scipys.logpdf(value.numpy()))
    torch.testing.assert_close(ours.log_prob(value), want)
    for found, moment in ((ours.mean, scipys.mean()), (ours.variance, scipys.var())):
        torch.testing.assert_close(found, torch.from_numpy(moment))


@pytest.mark.parametrize("name", RACES)
def test_probabilities_are_those_of_the_race(name: str) -> None:
    p_y = raced(name)
    reference = torch.tensor([by_quadrature(name, k) for k in range(3)], dtype=torch.float64)
    log_p = p_y.log_prob(torch.arange(3.0))
    assert (log_p - reference.log()).abs().max() < 1e-9
    assert (p_y.probabilities64().log() - reference.log()).abs().max() < 1e-9
    assert abs(p_y.probabilities64().sum() - 1.0) < 1e-12


def test_logarithms_have_their_digits_in_both_tails() -> None:
    h = torch.tensor([[0.0, -60.0], [0.0, 700.0], [0.0, -1e30]], dtype=torch.float64)
    h.requires_grad_()
    p_y = RacedClass(OrderEvent(MinimumGumbel(torch.zeros(2), torch.ones(2)).to_event(1), h))
    first, second = p_y.log_prob(torch.zeros(3)), p_y.log_prob(torch.ones(3))
    assert first[0].item() == pytest.approx(-math.exp(-60.0), rel=1e-12)
    assert first[1].item() == pytest.approx(-700.0, rel=1e-12)
    assert second[1].item() == pytest.approx(-math.exp(-700.0), rel=1e-9)
    (slope,) = torch.autograd.grad((first + second).sum(), h)
    assert slope.isfinite().all()


def gumbel_cdf(values: Tensor, loc: float, scale: float) -> Any:
    return stats.gumbel_l(loc=loc, scale=scale).cdf(values.numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RACES)
def test_costs_given_the_winner_let_it_win_and_have_their_distribution(
    name: str, dtype: torch.dtype
) -> None:
    p_y, (h, loc, scale) = raced(name, dtype), RACES[name]
    total = max((a - m) / s for a, m, s in zip(h, loc, scale, strict=True))
    total += math.log(
        sum(math.exp((a - m) / s - total) for a, m, s in zip(h, loc, scale, strict=True))
    )
    torch.manual_seed(0)
    for k in range(3):
        y = torch.full((), float(k))
        draws = p_y.cost_posterior(y).sample((4000,))
        assert draws.dtype == dtype
        assert (p_y.given_cost(draws).sample() == k).all()
        # The winner's cost is where the largest margin of all has it.
        p = gumbel_cdf(draws[:, k].double(), h[k] - scale[k] * total, scale[k])
        assert stats.kstest(p, "uniform").pvalue > 1e-4
        log_ratio = p_y.event.cost.log_prob(draws) - p_y.log_prob(y)
        found = p_y.cost_posterior(y).log_prob(draws)
        assert torch.allclose(found, log_ratio, rtol=1e-5, atol=1e-4)
        assert (p_y.cost_posterior((y + 1) % 3).log_prob(draws) == -math.inf).all()


def test_the_best_of_several_alternatives_stands_for_a_class() -> None:
    loc, scale = torch.randn(5, 2, 3).double(), torch.rand(5, 2, 3).double() + 0.5
    p_y = RacedClass(OrderEvent(MinimumGumbel(loc, scale).to_event(2), torch.zeros(2, 3)))
    odds = (-loc / scale).exp().sum(-2)
    assert torch.allclose(p_y.probabilities64().T, odds / odds.sum(-1, keepdim=True), rtol=1e-11)
    torch.manual_seed(0)
    y = torch.tensor([0.0, 1.0, 2.0, 0.0, 1.0]).double()
    draws = p_y.cost_posterior(y).sample((4000,))
    assert (p_y.winner(draws) == y).all()
    best = ((-draws) / scale).amax((-2, -1))
    for row in range(5):  # minus the largest margin is a cost as well
        p = gumbel_cdf(-best[:, row], -float(odds[row].sum().log()), 1.0)
        assert stats.kstest(p, "uniform").pvalue > 1e-4


def test_other_costs_are_refused_by_name() -> None:
    costs = dist.Normal(torch.zeros(3), 1.0)
    with pytest.raises(TypeError, match="MinimumGumbel, got Normal"):
        RacedClass(OrderEvent(costs.to_event(1), torch.zeros(3)))
