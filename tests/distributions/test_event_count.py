"""`EventCount`: counts, rates and costs are those of a gamma-mixed Poisson process."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pyro.distributions as dist
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from pyro_gcm.distributions import EventCount, InfiniteCost, OrderEvent
from pyro_gcm.distributions.event_count import log_count_prob


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def made(rate: Tensor, dispersion: float | None = None, logits: float | None = None) -> EventCount:
    """Counts at rates [...], from a cost whose event has probability 1/2."""
    cost = dist.Normal(torch.zeros(1, dtype=torch.float64), 1.0).to_event(1)
    if logits is not None:
        cost = InfiniteCost(cost, doubles(logits)[0])
    event = OrderEvent(cost, torch.zeros(*rate.shape, 1, dtype=torch.float64))
    given = None if dispersion is None else doubles(dispersion)[0]
    return EventCount(event, rate.log(), torch.ones_like(rate), given)


@pytest.mark.parametrize("dispersion", [None, 1e-4, 0.03, 1.0, 40.0])
def test_probabilities_are_those_of_mpmath_also_far_out(dispersion: float | None) -> None:
    counts = doubles(0.0, 1.0, 7.0, 300.0, 1e5)[:, None]
    means = doubles(1e-200, 1e-9, 0.3, 20.0, 1e4, 1e9)
    given = None if dispersion is None else doubles(dispersion)[0]
    found = log_count_prob(counts, means.log(), given)
    with mpmath.workdps(60):
        for n, row in zip(counts.flatten().tolist(), found, strict=True):
            for mean, log_p in zip(means.tolist(), row.tolist(), strict=True):
                m, n = mpmath.mpf(mean), mpmath.mpf(n)
                if given is None:
                    wanted = n * mpmath.log(m) - m - mpmath.loggamma(n + 1)
                else:
                    d = mpmath.mpf(float(given))
                    a = 1 / d
                    wanted = mpmath.loggamma(n + a) - mpmath.loggamma(a) - mpmath.loggamma(n + 1)
                    wanted += n * mpmath.log(d * m) - (n + a) * mpmath.log(1 + d * m)
                assert abs(log_p - wanted) <= 1e-9 * max(1, abs(wanted)), (n, mean)


@pytest.mark.parametrize(("dispersion", "logits"), [(None, None), (0.7, None), (2.0, -1.0)])
def test_the_distribution_function_adds_up_the_probabilities(
    dispersion: float | None, logits: float | None
) -> None:
    rate, exposure, counts = doubles(1e-6, 0.4, 9.0), 1.7, torch.arange(4000.0).double()
    p_y = made(rate, dispersion, logits)
    values = torch.stack([counts, torch.full_like(counts, exposure)], -1)[:, None]
    p = p_y.log_prob(values).exp()
    cdf = p_y.over(doubles(exposure)).cdf(counts[:, None])
    torch.testing.assert_close(cdf, p.cumsum(0), rtol=1e-10, atol=1e-12)
    assert p_y.cdf(doubles(-0.5)).eq(0.0).all()
    assert torch.equal(p_y.cdf(doubles(3.7)), p_y.cdf(doubles(3.0)))
    mean = (p * counts[:, None]).sum(0)
    torch.testing.assert_close(p_y.expected() * exposure, mean, rtol=1e-9, atol=0.0)
    torch.testing.assert_close(p_y.prediction64() * exposure, mean, rtol=1e-9, atol=0.0)


def test_counts_are_those_of_event_times_that_come_within_the_exposure() -> None:
    """Pr(N >= k) = Pr(T_k <= e), of the k-th event time, averaged over the rate."""
    rate, d, exposure = 0.8, 0.6, 2.5
    cdf = made(doubles(rate), d).over(doubles(exposure)).cdf(torch.arange(9.0).double())
    for k in range(1, 9):

        def times(own: float, k: int = k) -> float:
            density = stats.gamma.pdf(own, 1 / d, scale=d * rate)
            return float(stats.gamma.cdf(exposure, k, scale=1 / own) * density)

        wanted = integrate.quad(times, 0.0, 60.0, epsabs=1e-13, limit=400)[0]
        assert 1.0 - cdf[k - 1].item() == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("logits", [None, 0.3])
def test_the_rate_given_a_count_is_that_of_bayes_rule(logits: float | None) -> None:
    rate, d, exposure = 1.4, 0.5, 0.7
    p_y, never = made(doubles(rate), d, logits), 0.0 if logits is None else 1 / (1 + math.exp(-0.3))
    for count in (0.0, 3.0):

        def weighed(own: float, power: int, count: float = count) -> float:
            prior = (1 - never) * stats.gamma.pdf(own, 1 / d, scale=d * rate)
            return float(own**power * prior * stats.poisson.pmf(count, own * exposure))

        parts = [integrate.quad(weighed, 0, 50, (power,), epsabs=1e-13)[0] for power in (0, 1, 2)]
        total = parts[0] + never * (count == 0.0)
        y = doubles(count, exposure)[None]
        assert p_y.rate_given(y).item() == pytest.approx(parts[1] / total, rel=1e-9)
        assert p_y.log_prob(y).exp().item() == pytest.approx(total, rel=1e-9)
        torch.manual_seed(0)
        wide = p_y.expand((100_000,))
        drawn = wide.draw_rate(wide.cost_posterior(y).sample(), y)
        error = math.sqrt(parts[2] / total / len(drawn))  # at most
        assert abs(drawn.mean().item() - parts[1] / total) < 5.0 * error
        assert abs(drawn.square().mean().sqrt() / math.sqrt(parts[2] / total) - 1.0) < 0.02


def test_only_infinite_costs_tell_of_counts() -> None:
    """The mean of p(y | c) over costs is p(y), and costs given y have Bayes' rule."""
    p_y = made(doubles(0.9), 0.8, -0.4)
    y = torch.stack([torch.arange(40.0).double(), torch.full((40,), 2.0).double()], -1)
    ends = torch.stack([doubles(0.2), doubles(math.inf)])[:, None]  # [2, 1, 1]
    p0 = torch.sigmoid(doubles(-0.4))
    both = p_y.given_cost(ends).log_prob(y).exp()
    torch.testing.assert_close((1 - p0) * both[0] + p0 * both[1], p_y.log_prob(y).exp())
    posterior = p_y.cost_posterior(y)
    never = p0 * both[1] / p_y.log_prob(y).exp()
    torch.testing.assert_close(torch.sigmoid(posterior.logits), never)
    assert torch.equal(p_y.given_cost(ends[1]).sample()[..., 0], torch.zeros(1).double())


def test_draws_have_the_probabilities() -> None:
    torch.manual_seed(1)
    p_y = made(doubles(2.0), 0.5, -1.0).over(doubles(1.5))
    draws = p_y.sample((40_000,))
    assert torch.equal(draws[..., 1], torch.full((40_000, 1), 1.5).double())
    counts = np.bincount(draws[:, 0, 0].long().numpy(), minlength=40)[:10]
    value = torch.stack([torch.arange(10.0).double(), torch.full((10,), 1.5).double()], -1)
    p = p_y.log_prob(value).exp().numpy()
    z = (counts - 40_000 * p) / np.sqrt(40_000 * p)
    assert np.abs(z).max() < 5.0


@pytest.mark.parametrize("dispersion", [None, 1e-4, 3.0])
@pytest.mark.parametrize("logits", [None, -2.0])
def test_gradients_are_finite_at_no_events_and_infinite_revenues(
    dispersion: float | None, logits: float | None
) -> None:
    revenue = doubles(-math.inf, -60.0, 0.0, 60.0, math.inf)[:, None].requires_grad_()
    loc = doubles(0.1).requires_grad_()
    cost: dist.Distribution = dist.Normal(loc, 1.0).to_event(1)
    if logits is not None:
        cost = InfiniteCost(cost, doubles(logits)[0])
    given = None if dispersion is None else doubles(dispersion)[0]
    p_y = EventCount(OrderEvent(cost, revenue), doubles(0.2)[0], doubles(1.3)[0], given)
    for count in (0.0, 1.0, 1e5):
        for exposure in (1e-300, 1.0, 1e6):
            log_p = p_y.log_prob(doubles(count, exposure))
            assert log_p.isfinite().all()
            slopes = torch.autograd.grad(log_p.clamp(min=-1e30).sum(), [revenue, loc])
            assert all(slope.isfinite().all() for slope in slopes), (count, exposure)


def test_costs_given_fewer_than_no_events_are_refused() -> None:
    with pytest.raises(ValueError, match="support"):
        made(doubles(1.0)).cost_posterior(doubles(-1.0, 1.0))
