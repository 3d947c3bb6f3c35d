"""Costs that may be infinite: given the outcome, in programs, mixtures and responses."""

from __future__ import annotations

import math

import pyro
import pytest
import torch
from order_event_cases import atoms, event_shapes, fair_event, finite
from pyro.infer import Trace_ELBO
from samplers import DIFFERENT, agreement
from scipy import integrate
from torch import Tensor

from pyro_gcm.distributions import OrderEvent, ThresholdNormal, ThresholdQuantile
from pyro_gcm.distributions.latent_mixture import LatentMixture
from pyro_gcm.inference import collapse, uncollapse

# The costs given the outcome


def test_share_of_infinite_costs_given_a_miss_is_that_of_bayes() -> None:
    event = fair_event((2,), batch_shape=(6,), infinite=True)
    log_zero, _ = event.log_probs64()
    expected = (event.cost.log_infinite - log_zero).exp()
    c = event.cost_posterior(torch.zeros(6)).sample((20_000,))
    share = c.isposinf().all(-1).double().mean(0)
    assert ((share - expected).abs() < 5.0 * (expected * (1 - expected) / 20_000).sqrt()).all()


# As a part of programs and of other distributions


@event_shapes
@atoms
def test_program_collapses_and_recovers_its_costs_in_plates(
    infinite: bool, shape: tuple[int, ...]
) -> None:
    event = fair_event(shape, batch_shape=(6,), dtype=torch.float32, infinite=infinite)
    y, event_dim = torch.tensor([0.0, 1.0] * 3), len(shape)

    def model(y: Tensor | None = None) -> Tensor:
        with pyro.plate("data", 6):
            c = pyro.sample("c", event.cost)
            return pyro.sample("y", OrderEvent(c, event.revenue, cost_event_dim=event_dim), obs=y)

    def guide(y: Tensor) -> None:
        with pyro.plate("data", 6):
            pyro.sample("c", event.cost_posterior(y))

    expected = event.log_prob(y)
    with pyro.plate("particles", 5, dim=-2):
        trace = pyro.poutine.trace(collapse(model)).get_trace(y)
    trace.compute_log_prob()
    torch.testing.assert_close(trace.nodes["y"]["log_prob"], expected.expand(5, 6))
    with pyro.plate("particles", 500, dim=-2):
        recovered = pyro.poutine.trace(uncollapse(model)).get_trace(y)
    c = recovered.nodes["c"]["value"]
    assert c.shape == (500, 6, *shape)
    assert (event.given_cost(c).mean == y).all()
    assert c.isposinf().any() == infinite
    elbo = Trace_ELBO(16, vectorize_particles=True, max_plate_nesting=1)
    assert elbo.loss(model, guide, y) == pytest.approx(-expected.sum().item(), rel=1e-5)


def mixture(
    batch_shape: tuple[int, ...] = (), shape: tuple[int, ...] = (1,), family: str = "Normal"
) -> LatentMixture:
    component = fair_event(shape, family, (5, *batch_shape), infinite=True).cost
    units = torch.randn(shape[-1:]).double(), torch.rand(shape[-1:]).double() + 2.0
    return LatentMixture(component, *units)


@pytest.mark.parametrize("family", ["Normal", "Logistic"])
@event_shapes
def test_mixture_averages_densities_and_distribution_functions(
    shape: tuple[int, ...], family: str
) -> None:
    p_c = mixture((4,), shape, family)
    finite, infinite = p_c.component.log_finite, p_c.component.log_infinite  # [N, B, (G)]
    base = p_c.component.cost.base_dist
    c = p_c.loc + p_c.scale * base.sample()[0]
    standard = (c - p_c.loc) / p_c.scale
    rows = tuple(range(2, finite.dim()))

    def total(log_p: Tensor) -> Tensor:
        return log_p.sum(rows) if rows else log_p

    below = base.cdf(standard).flatten(-len(shape)).prod(-1) * total(finite).exp()
    torch.testing.assert_close(p_c.cdf(c), below.mean(0), rtol=1e-10, atol=1e-12)
    at_infinity = p_c.cdf(torch.full((4, *shape), math.inf))
    torch.testing.assert_close(at_infinity, total(finite).exp().mean(0))

    density = (base.log_prob(standard) - p_c.scale.log()).sum(-1)
    joint = total(finite + density).exp().mean(0)
    torch.testing.assert_close(p_c.log_prob(c), joint.log(), rtol=1e-10, atol=1e-10)
    everywhere = torch.full_like(c, math.inf)
    torch.testing.assert_close(p_c.log_prob(everywhere), total(infinite).exp().mean(0).log())
    if rows:
        c[:, 0] = math.inf
        mixed = infinite[..., 0] + finite[..., 1] + density[..., 1]
        torch.testing.assert_close(p_c.log_prob(c), mixed.exp().mean(0).log())
    c[..., :1] = math.inf
    assert (p_c.log_prob(c) == -math.inf).all()
    assert p_c.mean.isposinf().all()
    assert p_c.variance.isposinf().all()
    assert p_c.mean.shape == p_c.variance.shape == (4, *shape)


def test_mixture_of_densities_has_mass_one_in_the_units_of_the_data() -> None:
    p_c = mixture()

    def density(c: float) -> float:
        return p_c.log_prob(torch.tensor([c], dtype=torch.float64)).exp().item()

    mass = integrate.quad(density, -80.0, 80.0, points=[-10.0, 0.0, 10.0], limit=200)[0]
    assert mass + density(math.inf) == pytest.approx(1.0, abs=1e-7)


@event_shapes
def test_draws_of_a_mixture_follow_its_components(shape: tuple[int, ...]) -> None:
    p_c = mixture((), shape)
    draws = p_c.sample((20_000,))
    which = torch.randint(5, (20_000,))
    direct = p_c.component.sample((20_000,))[torch.arange(20_000), which]
    assert agreement(finite(draws), finite(p_c.loc + p_c.scale * direct)) > DIFFERENT
    assert (draws.isposinf().all(-1) == draws.isposinf().any(-1)).all()
    assert p_c.expand(torch.Size()).sample((3,)).shape == (3, *shape)


def response(shape: tuple[int, ...], revenue: Tensor | None = None) -> ThresholdNormal:
    event = fair_event(shape, batch_shape=(5,), infinite=True)
    event = OrderEvent(event.cost, event.revenue if revenue is None else revenue)
    units = (torch.randn(5).double(), *(0.5 + torch.rand(2, 5, dtype=torch.float64)))
    return ThresholdNormal(event, *units)


@event_shapes
def test_gaussian_response_is_finite_and_capped(shape: tuple[int, ...]) -> None:
    p_y = response(shape, torch.full(shape, math.inf))
    p0 = p_y.event.cost.p0
    p0 = p0.prod(-1) if len(shape) == 2 else p0
    spread = torch.hypot(p_y.scale, p_y.threshold_scale)
    cap = p_y.threshold_loc + spread * torch.special.ndtri(1.0 - p0)
    torch.testing.assert_close(p_y.mean, cap)
    lower = ThresholdNormal(
        fair_event(shape, batch_shape=(5,), infinite=True).marginalize(p_y.event.cost),
        p_y.threshold_loc,
        p_y.threshold_scale,
        p_y.scale,
    )
    assert (lower.mean < cap).all()


@event_shapes
def test_gaussian_response_averages_over_finite_and_infinite_costs(shape: tuple[int, ...]) -> None:
    p_y = response(shape)
    y = p_y.mean + p_y.scale
    above = p_y.given_cost(torch.full((5, *shape), math.inf)).log_prob(y).exp()
    below = p_y.given_cost(torch.full((5, *shape), -1e6).double()).log_prob(y).exp()
    p = p_y.event.mean
    torch.testing.assert_close(((1 - p) * above + p * below).log(), p_y.log_prob(y))

    posterior = p_y.cost_posterior(y)
    c = posterior.sample((300,))
    explicit = p_y.event.cost.log_prob(c) + p_y.given_cost(c).log_prob(y) - posterior.log_prob(c)
    torch.testing.assert_close(explicit, p_y.log_prob(y).expand(300, 5), rtol=0, atol=1e-11)


@event_shapes
def test_quantile_response_is_finite_and_capped(shape: tuple[int, ...]) -> None:
    ones = torch.ones(5, dtype=torch.float64)

    def quantile(event: OrderEvent) -> ThresholdQuantile:
        return ThresholdQuantile(event, 0.5 * ones, 2.0 * ones, 0.3 * ones, ones)

    event = fair_event(shape, batch_shape=(5,), infinite=True)
    event.cost.logits.requires_grad_()
    p_y = quantile(event)
    cap = quantile(OrderEvent(event.cost, torch.full(shape, math.inf))).loc
    assert cap.isfinite().all()
    assert (p_y.loc < cap).all()
    p_y.log_prob(ones).sum().backward()
    assert event.cost.logits.grad.isfinite().all()
    assert p_y.cost_posterior(ones).sample((4,)).shape == (4, 5, *shape)
