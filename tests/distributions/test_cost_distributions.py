"""Costs that may be infinite, and costs averaged over draws of z."""

from __future__ import annotations

import math

import pytest
import torch
from order_event_cases import (
    LOGITS,
    dtypes,
    event_shapes,
    independent,
    outcomes,
    random_parameters,
)

from pyro_gcm.distributions import (
    InfiniteCost,
    LatentMixture,
    OrderEvent,
)
from pyro_gcm.distributions.costs import CostUnits
from pyro_gcm.nets import Standardizer

families = pytest.mark.parametrize("family", ["Normal", "Logistic"])
shapes = pytest.mark.parametrize("shape", [(1,), (3,), (1, 2), (3, 2), (4, 1)], ids=str)

# Its order event


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


@shapes
def test_certainly_infinite_cost_never_happens(shape: tuple[int, ...]) -> None:
    plain = independent("Normal", torch.zeros(shape), torch.ones(shape), len(shape))
    logits = torch.tensor(math.inf, requires_grad=True)
    event = OrderEvent(InfiniteCost(plain, logits), torch.ones(shape))
    assert [term.item() for term in event.log_probs()] == [0.0, -math.inf]
    assert torch.autograd.grad(event.log_probs()[0], logits)[0].item() == 0.0
    assert event.cost.sample((20,)).isposinf().all()
    assert event.cost_posterior(torch.tensor(0.0)).sample((20,)).isposinf().all()


# The distribution itself


@families
@dtypes
@event_shapes
def test_density_has_finite_gradients_also_at_infinity(
    shape: tuple[int, ...], dtype: torch.dtype, family: str
) -> None:
    full = (20, *shape)
    loc, scale = random_parameters(torch.Size(full), dtype)
    logits = torch.tensor([*LOGITS, math.inf, 0.0] * 2, dtype=dtype)
    logits = logits.reshape(20, *(1,) * (len(shape) - 1))
    value = torch.randn(full, dtype=dtype)
    value[::2] = math.inf
    value[::3, ..., 0] = math.inf
    value[1] = -math.inf
    leaves = [leaf.requires_grad_() for leaf in (loc, scale, logits, value)]
    cost = InfiniteCost(independent(family, loc, scale, len(shape)), logits)
    log_p = cost.log_prob(value)
    assert log_p.dtype == dtype
    log_p.sum().backward()
    assert all(leaf.grad.isfinite().all() for leaf in leaves)
    assert not loc.grad[0].any()


def test_costs_in_the_units_of_the_data_have_their_density_there() -> None:
    units = Standardizer(2).double()
    units.learn(torch.tensor([[10.0, -4.0], [30.0, -1.0], [20.0, 7.0]]).double())
    loc, scale = random_parameters(torch.Size((3, 2)), torch.float64)
    threshold, logits = torch.zeros_like(loc), torch.zeros(3).double()
    standard = InfiniteCost(independent("Normal", loc, scale), logits)
    of_data = CostUnits(units, units.inverse(threshold), threshold).of(standard)
    moved = independent("Normal", units.inverse(loc), units.scale * scale)
    values = of_data.sample((50,))
    assert values.isinf().any()
    wanted = InfiniteCost(moved, logits).log_prob(values)
    torch.testing.assert_close(of_data.log_prob(values), wanted)


def test_mean_is_infinite_where_the_cost_may_be() -> None:
    logits = torch.tensor([-math.inf, -800.0, 0.0])
    cost = InfiniteCost(independent("Normal", torch.ones(3, 2), 2 * torch.ones(3, 2)), logits)
    assert cost.mean.tolist() == [[1.0, 1.0], [math.inf] * 2, [math.inf] * 2]
    assert cost.variance.tolist() == [[4.0, 4.0], [math.inf] * 2, [math.inf] * 2]


def mixture(
    batch_shape: tuple[int, ...] = (),
    event_shape: tuple[int, ...] = (1,),
    family: str = "Normal",
    infinite: bool = False,
) -> LatentMixture:
    full = (5, *batch_shape, *event_shape)
    loc, scale = 2.0 * torch.randn(full).double(), torch.rand(full).double() + 0.3
    component = independent(family, loc, scale, len(event_shape))
    if infinite:
        component = InfiniteCost(component, torch.randn(full[:-1]).double() - 0.5)
    units = torch.randn(event_shape[-1:]).double(), torch.rand(event_shape[-1:]).double() + 2.0
    return LatentMixture(component, *units)


def test_values_may_be_arrays() -> None:
    p_c, value = mixture(event_shape=(2,)), torch.tensor([0.5, 1.0], dtype=torch.float64)
    assert torch.equal(p_c.cdf(value.numpy()), p_c.cdf(value))
    assert torch.equal(p_c.log_prob(value.numpy()), p_c.log_prob(value))


@pytest.mark.parametrize("value", [[math.inf, math.inf], [math.inf, 1.0], [-math.inf, 2.0]])
def test_infinite_costs_leave_gradients_by_the_units_finite(value: list[float]) -> None:
    loc, scale = torch.zeros(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    p_c = LatentMixture(mixture(event_shape=(2,), infinite=True).component, loc, scale)
    for found in (p_c.log_prob(torch.tensor(value)), p_c.cdf(torch.tensor(value))):
        for by_unit in torch.autograd.grad(found, [loc, scale]):
            assert by_unit.isfinite().all()
            assert by_unit[0] == 0.0
