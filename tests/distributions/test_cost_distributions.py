"""Costs that may be infinite, and costs averaged over draws of z."""

from __future__ import annotations

import math

import pyro.distributions as dist
import torch
from order_event_cases import (
    event_shapes,
    independent,
    outcomes,
)

from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm.distributions import CostUnits, InfiniteCost, OrderEvent


@outcomes
@event_shapes
def test_infinite_revenue_passes_a_gradient_to_the_logits_alone(
    shape: tuple[int, ...], outcome: float
) -> None:
    leaves = [torch.zeros(shape), torch.ones(shape), torch.tensor(-1.0)]
    loc, scale, logits = (leaf.requires_grad_() for leaf in leaves)
    revenue = torch.full(shape, math.inf, requires_grad=True)
    cost = InfiniteCost(independent("Normal", loc, scale, len(shape)), logits)
    OrderEvent(cost, revenue).log_prob(torch.tensor(outcome)).backward()
    assert all(not leaf.grad.any() for leaf in (loc, scale, revenue))
    alternatives, p0 = (1 if len(shape) == 1 else shape[0]), logits.detach().sigmoid()
    slope = alternatives * (1.0 - p0)  # of log p0^G
    if outcome:
        slope = -slope * p0**alternatives / (1.0 - p0**alternatives)
    torch.testing.assert_close(logits.grad, slope)


def test_infinite_cost_is_below_no_revenue() -> None:
    cost = InfiniteCost(independent("Normal", torch.zeros(2), torch.ones(2)), torch.tensor(0.0))
    c = torch.tensor([[math.inf, math.inf], [0.0, 0.0], [0.0, math.inf]])
    for r, y in ((math.inf, [0.0, 1.0, 0.0]), (5.0, [0.0, 1.0, 0.0]), (-math.inf, [0.0] * 3)):
        assert OrderEvent(cost, torch.full((2,), r)).given_cost(c).mean.tolist() == y
    rows = OrderEvent(c, torch.full((2,), math.inf), cost_event_dim=2)
    assert rows.mean.item() == 1.0  # its second alternative
    revenue = independent("Normal", torch.zeros(2), torch.ones(2))
    assert OrderEvent(cost, revenue).given_cost(c).mean.tolist() == [0.0, 0.25, 0.0]


@event_shapes
def test_certainly_infinite_cost_never_happens(shape: tuple[int, ...]) -> None:
    plain = independent("Normal", torch.zeros(shape), torch.ones(shape), len(shape))
    logits = torch.tensor(math.inf, requires_grad=True)
    event = OrderEvent(InfiniteCost(plain, logits), torch.ones(shape))
    assert [term.item() for term in event.log_probs()] == [0.0, -math.inf]
    assert torch.autograd.grad(event.log_probs()[0], logits)[0].item() == 0.0
    assert event.cost.sample((20,)).isposinf().all()
    assert event.cost_posterior(torch.tensor(0.0)).sample((20,)).isposinf().all()


def test_costs_in_the_units_of_the_data_are_reparametrised_where_the_standard_ones_are() -> None:
    units = CostUnits(Standardizer(2), torch.zeros(3, 2), torch.zeros(3, 2))
    for family, reparametrised in ((dist.Normal, True), (dist.VonMises, False)):
        standard = family(torch.zeros(3, 2), torch.ones(3, 2)).to_event(1)
        assert units.of(standard).has_rsample == reparametrised
