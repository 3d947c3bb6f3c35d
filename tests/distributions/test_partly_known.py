"""Univariate distributions of which some values are known: as a distribution, and as a cost."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from order_event_cases import dtypes
from samplers import DIFFERENT, agreement

from pyro_gcm.distributions import OrderEvent, PartlyKnown
from pyro_gcm.distributions.families import tail_log_probs

NAN = math.nan
families = pytest.mark.parametrize("family", ["Normal", "Logistic", "Laplace"])
#: Which of three values are known.
KNOWN = torch.tensor([0.3, NAN, -1.2])


def base(family: str, dtype: torch.dtype = torch.float64) -> Any:
    loc = torch.tensor([0.5, -0.4, 1.0], dtype=dtype)
    return getattr(dist, family)(loc, torch.tensor([0.7, 1.3, 2.0], dtype=dtype))


@dtypes
@families
def test_density_counts_what_is_unknown(family: str, dtype: torch.dtype) -> None:
    d = PartlyKnown(base(family, dtype), KNOWN)
    value = torch.where(KNOWN.isnan(), torch.tensor(0.8), KNOWN).to(dtype)
    log_p = d.log_prob(value)
    assert log_p.dtype == dtype
    assert torch.equal(log_p, torch.where(KNOWN.isnan(), base(family, dtype).log_prob(value), 0.0))
    # A value that is known has no other.
    assert d.log_prob(value + 1e-3).tolist()[::2] == [-math.inf, -math.inf]


@dtypes
@families
def test_draws_keep_what_is_known_and_leave_the_rest_as_it_is(
    family: str, dtype: torch.dtype
) -> None:
    d = PartlyKnown(base(family, dtype), KNOWN)
    draws = d.sample((4000,))
    assert draws.dtype == dtype
    assert (draws[:, ::2] == KNOWN[::2].to(dtype)).all()
    assert agreement(draws[:, 1:2], base(family, dtype).sample((4000,))[:, 1:2]) > DIFFERENT
    assert torch.equal(d.mean, torch.where(KNOWN.isnan(), base(family, dtype).mean, KNOWN))
    assert torch.equal(d.variance, torch.where(KNOWN.isnan(), base(family, dtype).variance, 0.0))


@dtypes
@families
def test_a_known_value_is_below_or_not(family: str, dtype: torch.dtype) -> None:
    d = PartlyKnown(base(family, dtype), KNOWN)
    for shift in (-1.0, 0.0, 1.0):
        value = KNOWN.nan_to_num().to(dtype) + shift
        below, above = tail_log_probs(d, value)
        free = tail_log_probs(base(family, dtype), value)
        sure = (0.0, -math.inf) if shift > 0 else (-math.inf, 0.0)  # c < r is strict
        assert [below[0], above[0]] == [below[2], above[2]] == list(sure)
        assert (below[1], above[1]) == (free[0][1], free[1][1])
        assert below.dtype == above.dtype == torch.float64


@pytest.mark.parametrize("value", [-math.inf, math.inf])
def test_infinite_revenue_leaves_no_doubt(value: float) -> None:
    below, above = tail_log_probs(PartlyKnown(base("Normal"), KNOWN), torch.full((3,), value))
    assert (below.exp() == float(value > 0)).all()
    assert (above.exp() == float(value < 0)).all()


@dtypes
@families
def test_event_of_known_costs_is_certain(family: str, dtype: torch.dtype) -> None:
    known = torch.randn(50, 3, dtype=dtype)
    cost = PartlyKnown(base(family, dtype).expand((50, 3)), known).to_event(1)
    revenue = known + 0.5 * torch.randn(50, 3, dtype=dtype) + 0.5
    happened = (known < revenue).all(-1)
    assert 0.2 < happened.double().mean() < 0.8
    event = OrderEvent(cost, revenue)
    assert torch.equal(event.mean, happened.to(dtype))
    assert torch.equal(event.log_probs()[0].exp(), (~happened).to(dtype))
    assert (event.sample((20,)) == happened).all()


@dtypes
@families
def test_nothing_known_is_the_plain_distribution(family: str, dtype: torch.dtype) -> None:
    plain = base(family, dtype)
    d = PartlyKnown(plain, torch.tensor(NAN))
    value = torch.linspace(-30.0, 30.0, 33, dtype=dtype).reshape(11, 3)
    events = [OrderEvent(c.to_event(1), value) for c in (d, plain)]
    tolerance = {"rtol": 1e-6 if dtype == torch.float32 else 1e-12, "atol": 0.0}
    for mine, theirs in zip(events[0].log_probs(), events[1].log_probs(), strict=True):
        torch.testing.assert_close(mine, theirs, **tolerance)
    draws = []
    for event in events:
        torch.manual_seed(3)
        draws.append(event.cost_posterior(torch.zeros(11)).sample((50,)))
    torch.testing.assert_close(*draws, **tolerance)
    assert torch.equal(d.log_prob(value), plain.log_prob(value))


@dtypes
@families
def test_gradients_are_finite_also_where_the_event_is_impossible(
    family: str, dtype: torch.dtype
) -> None:
    u = torch.linspace(-40.0, 40.0, 41, dtype=dtype).reshape(-1, 1).repeat(1, 3)
    loc = torch.randn(41, 3, dtype=dtype).requires_grad_()
    scale = (0.5 + torch.rand(41, 3, dtype=dtype)).requires_grad_()
    revenue = (loc + scale * u).detach().requires_grad_()
    for known in (KNOWN, torch.tensor([-1e3, NAN, NAN]), torch.tensor([1e3, NAN, 1e3])):
        cost = PartlyKnown(getattr(dist, family)(loc, scale), known).to_event(1)
        event = OrderEvent(cost, revenue)
        for y in (0.0, 1.0):
            log_p = event.log_prob(torch.tensor(y, dtype=dtype))
            assert not log_p.isnan().any()
            for gradient in torch.autograd.grad(log_p.sum(), (loc, scale, revenue)):
                assert gradient.isfinite().all()
                # What is known does not depend on the parameters.
                assert not gradient[:, ~known.isnan()].any()
    assert (log_p == -math.inf).any()


@dtypes
@families
def test_gradient_of_the_density_is_that_of_the_unknown(family: str, dtype: torch.dtype) -> None:
    loc = torch.zeros(3, dtype=dtype, requires_grad=True)
    d = PartlyKnown(getattr(dist, family)(loc, torch.ones(3, dtype=dtype)), KNOWN)
    value = torch.where(KNOWN.isnan(), torch.tensor(0.8), KNOWN).to(dtype)
    gradient = torch.autograd.grad(d.log_prob(value).sum(), loc)[0]
    assert gradient[::2].tolist() == [0.0, 0.0]
    assert gradient[1] > 0
    elsewhere = torch.autograd.grad(d.log_prob(value + 1.0).sum(), loc)[0]
    assert elsewhere.isfinite().all()
