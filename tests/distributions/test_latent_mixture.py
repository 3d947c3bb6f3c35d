"""The average of p(c | z) over draws of z: density, distribution function, moments and draws."""

from __future__ import annotations

import math

import pytest
import torch
from order_event_cases import atoms, event_shapes, independent
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, LatentMixture


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


@pytest.mark.parametrize("family", ["Normal", "Logistic", "Laplace"])
@event_shapes
@atoms
def test_mixture_averages_densities_and_distribution_functions_in_the_units_of_the_data(
    infinite: bool, shape: tuple[int, ...], family: str
) -> None:
    p_c = mixture((4,), shape, family, infinite)
    component, finite = p_c.component, torch.zeros(5, 4, *shape[:-1]).double()  # [N, B, (G)]
    if infinite:
        component, finite = component.cost, component.log_finite
    base = component.base_dist
    c = p_c.loc + p_c.scale * base.sample((6,))[:, 0]  # [S, B, (G), K]
    standard = ((c - p_c.loc) / p_c.scale).unsqueeze(1)

    def mean(log_p: Tensor) -> Tensor:
        """Over draws of z, of the joint probability of all alternatives."""
        return (log_p.sum(-1) if len(shape) == 2 else log_p).exp().mean(-2)

    below = base.cdf(standard).log().sum(-1) + finite
    torch.testing.assert_close(p_c.cdf(c), mean(below), rtol=1e-10, atol=1e-12)
    ends = [p_c.cdf(torch.full(shape, end)) for end in (math.inf, -math.inf)]
    torch.testing.assert_close(ends[0], mean(finite))
    assert not ends[1].any()
    density = (base.log_prob(standard) - p_c.scale.log()).sum(-1) + finite
    torch.testing.assert_close(p_c.log_prob(c), mean(density).log(), rtol=1e-10, atol=1e-10)
    if infinite:
        log_infinite = p_c.component.log_infinite
        everywhere = p_c.log_prob(torch.full_like(c, math.inf))
        torch.testing.assert_close(everywhere, mean(log_infinite).log().expand(6, 4))
        if len(shape) == 2:
            c[..., 0, :] = math.inf
            mixed = (log_infinite[..., 0] + density[..., 1]).exp().mean(-2)
            torch.testing.assert_close(p_c.log_prob(c), mixed.log())
        c[..., :1] = math.inf
        assert (p_c.log_prob(c) == -math.inf).all()


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
