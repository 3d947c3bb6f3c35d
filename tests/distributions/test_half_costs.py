"""Costs with a falling density, beside scipy's half distributions and mpmath."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from mpmath import mp, mpf
from scipy import stats

from pyro_gcm.distributions import OrderEvent, cost_family
from pyro_gcm.distributions.families import tail_log_probs
from pyro_gcm.distributions.half_costs import Exponential, HalfCost, HalfLogistic, HalfNormal

#: Pr(|e| < u) in mpmath, and the distribution in scipy.
FAMILIES: dict[type[HalfCost], tuple[Any, Any]] = {
    Exponential: (lambda u: -mp.expm1(-u), stats.expon),
    HalfLogistic: (lambda u: mp.tanh(u / 2), stats.halflogistic),
    HalfNormal: (lambda u: mp.erf(u / mp.sqrt(2)), stats.halfnorm),
}
U = [1e-300, 1e-12, 1e-3, 0.3, 0.7, 0.99, 1.01, 3.0, 9.0, 25.0, 36.0]


def cost_of(family: type[HalfCost], increment: float = 0.0, scale: float = 1.0) -> HalfCost:
    values = torch.tensor([increment, scale], dtype=torch.float64)
    return family(*values, validate_args=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_tails_and_quantiles_have_their_digits(family: type[HalfCost]) -> None:
    below, above = tail_log_probs(cost_of(family), torch.tensor(U, dtype=torch.float64))
    with mp.workdps(700):  # of 1 - erf(36) there are none before the 280th digit
        cdf = [FAMILIES[family][0](mpf(u)) for u in U]
        references = [[float(mp.log(p)) for p in cdf], [float(mp.log1p(-p)) for p in cdf]]
    for found, wanted in zip((below, above), references, strict=True):
        wanted = torch.tensor(wanted, dtype=torch.float64)
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0.0)
    again = cost_family(family).quantile(cost_of(family), below, above)
    torch.testing.assert_close(again, torch.tensor(U, dtype=torch.float64), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_increment_is_inside_the_cost(family: type[HalfCost]) -> None:
    cost, scipy = cost_of(family, 0.4, 2.0), FAMILIES[family][1](loc=-0.4, scale=2.0)
    values = torch.tensor([-0.5, -0.4, 0.0, 1.0, 7.0], dtype=torch.float64)
    below, above = tail_log_probs(cost, values)
    assert below.exp().tolist() == pytest.approx(scipy.cdf(values), abs=1e-12)
    assert above.exp().tolist() == pytest.approx(scipy.sf(values), abs=1e-12)
    inside = values[2:]
    assert cost.log_prob(inside).tolist() == pytest.approx(scipy.logpdf(inside), rel=1e-9)
    assert cost.log_prob(values[:1]).item() == -math.inf
    assert cost.mean.item() == pytest.approx(scipy.mean(), rel=1e-9)
    torch.manual_seed(0)
    drawn = cost.sample((4000,))
    assert stats.kstest(drawn.numpy(), scipy.cdf).pvalue > 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_costs_given_the_event_are_truncated_at_the_revenue(family: type[HalfCost]) -> None:
    cost, revenue = cost_of(family, 0.4, 2.0), torch.tensor([1.5]).double()
    event = OrderEvent(cost.expand((1,)).to_event(1), revenue)
    scipy = FAMILIES[family][1](loc=-0.4, scale=2.0)
    torch.manual_seed(0)
    for y, part in ((1.0, scipy.cdf(1.5)), (0.0, scipy.sf(1.5))):
        posterior = event.cost_posterior(torch.tensor(y))
        drawn = posterior.sample((4000,))
        assert ((drawn < 1.5) == bool(y)).all()
        p = scipy.cdf(drawn[:, 0]) if y else scipy.sf(drawn[:, 0])
        assert stats.kstest(p / part, "uniform").pvalue > 1e-4
        wanted = scipy.logpdf(drawn[:5, 0]) - math.log(part)
        assert posterior.log_prob(drawn[:5]).tolist() == pytest.approx(wanted, rel=1e-9)
