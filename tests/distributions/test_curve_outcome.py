"""Times, whole distributions and levels: densities by quadrature, samplers against rejection."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from order_event_cases import DIFFERENT, agreement, families
from scipy import stats
from scipy.integrate import quad
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.curve_outcome import EventTime
from pyro_gcm.nets.revenue_maps import AxisMap

INF = math.inf
SHAPES = [(1,), (2,), (2, 2)]
LOG_TIME = SimpleNamespace(position=torch.log, value=torch.exp, log_slope=lambda t: -torch.log(t))
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
atoms = pytest.mark.parametrize("infinite", [False, True], ids=["finite", "cured"])


@pytest.fixture(autouse=True)
def float64() -> Any:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def parts(family: str, shape: tuple[int, ...], infinite: bool = False) -> tuple[OrderEvent, Any]:
    """An event without batch, and an axis."""
    torch.manual_seed(len(shape) + sum(shape))
    loc, raw, revenue = torch.randn(3, *shape)
    cost: Any = getattr(dist, family)(loc, (0.3 * raw).exp()).to_event(len(shape))
    if infinite:
        cost = InfiniteCost(cost, torch.linspace(-1.0, 0.5, 2)[: len(shape[1:]) + 1].squeeze())
        if len(shape) == 1:
            cost = InfiniteCost(cost.cost, torch.tensor(-1.0))
    axis = AxisMap(shape, knots=3)
    weights = axis.weights().detach()
    return OrderEvent(cost, revenue), partial(axis.with_weights, weights, len(shape))


def event_time(family: str, shape: tuple[int, ...], infinite: bool = False) -> EventTime:
    event, axis = parts(family, shape, infinite)
    return EventTime(event, axis, LOG_TIME, validate_args=False)


def probability(p_t: EventTime, *value: float) -> float:
    return math.exp(float(p_t.log_prob(torch.tensor(value))))


def areas(density: Any, ends: Tensor, panels: int = 400) -> Tensor:
    """Integrals between neighbouring ends, of a function of many points at once."""
    nodes, weights = (torch.tensor(v) for v in np.polynomial.legendre.leggauss(20))
    share = torch.linspace(0.0, 1.0, panels + 1)
    cuts = ends[:-1, None] + (ends[1:] - ends[:-1])[:, None] * share
    middle, half = 0.5 * (cuts[:, 1:] + cuts[:, :-1]), 0.5 * cuts.diff()
    points = middle[..., None] + half[..., None] * nodes
    values = density(points.flatten()).reshape(points.shape)
    return (values * weights * half[..., None]).sum((-2, -1))


@pytest.mark.long(keep=("finite-Normal-(2,)", "cured-Logistic-(2, 2)"))
@shapes
@families
@atoms
def test_the_density_of_a_time_integrates_to_its_probabilities_and_those_of_its_draws(
    infinite: bool, family: str, shape: tuple[int, ...]
) -> None:
    p_t = event_time(family, shape, infinite)

    def density(log_t: Tensor) -> Tensor:
        t = log_t.exp()
        return t * p_t.log_prob(torch.stack([t, t, 0.0 * t], -1)).exp()

    ends = torch.tensor([-200.0, -3.0, -0.5, 0.7, 2.0, 200.0])
    # The density of a Laplace cost has a kink where the cost is at its location.
    close = 1e-4 if family == "Laplace" else 1e-10
    never = float(p_t.event.cost.p0.prod()) if infinite else 0.0
    for number, area in enumerate(areas(density, ends).tolist()):
        lower, upper = (math.exp(float(ends[k])) for k in (number, number + 1))
        lower, upper = lower if number else 0.0, upper if number < 4 else INF
        cured = never if upper == INF else 0.0
        assert abs(probability(p_t, lower, upper, 0.0) - area - cured) < close, number
    # Late entrants are those whose event occurred after their entry.
    late = probability(p_t, 1.0, 2.0, 0.5) * probability(p_t, 0.5, INF, 0.0)
    assert late == pytest.approx(probability(p_t, 1.0, 2.0, 0.0), rel=1e-12)
    draws = p_t.sample((4_000,))
    happened = draws[:, 1] < INF
    assert happened.double().mean() == pytest.approx(1.0 - never, abs=0.035)
    assert (draws[happened, 0] == draws[happened, 1]).all()
    assert (draws[:, 2] == 0.0).all()
    u = p_t.cdf(draws[happened, 0]) / (1.0 - never)
    assert stats.kstest(u.numpy(), "uniform").pvalue > DIFFERENT


CENSORED = {"left": (0.0, 0.8), "right": (1.1, INF), "interval": (0.6, 1.4), "narrow": (0.9, 1.0)}


@pytest.mark.long(
    keep=("right-cured-Normal-(2,)", "narrow-finite-Logistic-(2, 2)", "interval-finite-Normal-(2,)")
)
@shapes
@families
@atoms
@pytest.mark.parametrize("kind", CENSORED)
def test_costs_given_a_censored_time_are_those_of_rejection(
    kind: str, infinite: bool, family: str, shape: tuple[int, ...]
) -> None:
    p_t, (lower, upper) = event_time(family, shape, infinite), CENSORED[kind]
    costs = p_t.event.cost.sample((50_000,))
    times = p_t.drawn(costs)[:, 1]
    kept = costs[(times > lower) & (times <= upper)][:2_000]
    assert len(kept) > 100
    posterior = p_t.cost_posterior(torch.tensor([lower, upper, 0.0]))
    draws = posterior.sample((2_000,))
    found = p_t.drawn(draws)[:, 1]
    assert ((found >= lower) & (found <= upper * (1.0 + 1e-12))).all()
    finite = torch.tensor(1e3)  # an infinite cost counts as a large one
    assert agreement(torch.minimum(draws, finite), torch.minimum(kept, finite)) > DIFFERENT
    # Bayes' rule, term by term.
    log_p = p_t.event.cost.log_prob(draws) - p_t.log_prob(torch.tensor([lower, upper, 0.0]))
    torch.testing.assert_close(posterior.log_prob(draws), log_p, rtol=1e-12, atol=1e-12)


def test_the_density_of_costs_given_a_time_integrates_to_one() -> None:
    p_t = event_time("Logistic", (2,))
    value = torch.tensor([1.2, 1.2, 0.0])
    posterior = p_t.cost_posterior(value)
    shift, _ = p_t.axis(torch.log(value[0]))
    revenue = (p_t.event.revenue + shift).tolist()

    def density(free: float, place: int) -> float:
        cost = list(revenue)
        cost[place] = free
        return math.exp(float(posterior.log_prob(torch.tensor(cost))))

    total = sum(quad(density, -60.0, revenue[k], args=(k,), limit=200)[0] for k in (0, 1))
    assert total == pytest.approx(1.0, abs=1e-9)


def test_costs_given_a_time_have_the_same_density_alone_and_among_others() -> None:
    p_t = event_time("Normal", (2, 2))
    posterior = p_t.cost_posterior(torch.tensor([1.2, 1.2, 0.0]))
    draws = posterior.sample((5, 4))
    alone = torch.stack([posterior.log_prob(draw) for draw in draws.flatten(0, 1)])
    assert alone.isfinite().all()
    torch.testing.assert_close(posterior.log_prob(draws), alone.reshape(5, 4))
