"""Gaussian responses: the explicit program and the closed form are one distribution."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import event_log_probs, normal_quantile, worst_error
from samplers import DIFFERENT, agreement
from scipy import stats
from torch import Tensor

from pyro_gcm.distributions import OrderEvent, ThresholdNormal

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
families = pytest.mark.parametrize("family", ["Normal", "Logistic", "Laplace", "Gumbel"])
shapes = pytest.mark.parametrize("shape", [(1,), (4,), (4, 1), (2, 3), (4, 4)], ids=str)


def response(
    shape: tuple[int, ...],
    batch_shape: tuple[int, ...] = (),
    family: str = "Normal",
    dtype: torch.dtype = torch.float64,
) -> ThresholdNormal:
    """A response of random parameters whose event is neither rare nor sure."""
    full = batch_shape + shape
    loc, scale = torch.randn(full, dtype=dtype), 0.5 + torch.rand(full, dtype=dtype)
    distribution = getattr(dist, family)(loc, scale)
    alternatives = shape[0] if len(shape) == 2 else 1
    p = (1.0 - 0.5 ** (1.0 / alternatives)) ** (1.0 / shape[-1])
    revenue = distribution.icdf(torch.full(full, p, dtype=dtype)) + 0.2
    return ThresholdNormal(
        OrderEvent(distribution.to_event(len(shape)), revenue),
        threshold_loc=torch.randn(batch_shape, dtype=dtype),
        threshold_scale=0.5 + torch.rand(batch_shape, dtype=dtype),
        scale=0.5 + torch.rand(batch_shape, dtype=dtype),
    )


def costs_on_each_side(event: OrderEvent) -> tuple[Tensor, Tensor]:
    """A cost that every revenue misses and one that every revenue exceeds."""
    return event.revenue + 0.1, event.revenue - 0.1


@shapes
def test_density_averaged_over_both_events_is_the_closed_form(shape: tuple[int, ...]) -> None:
    p_y = response(shape)
    hit = p_y.event.cost.base_dist.cdf(p_y.event.revenue).prod(-1)
    p = 1.0 - (1.0 - hit).prod(-1) if len(shape) == 2 else hit
    y = p_y.mean + p_y.scale * torch.linspace(-9.0, 9.0, 37, dtype=torch.float64)
    miss_cost, hit_cost = costs_on_each_side(p_y.event)
    average = (1.0 - p) * p_y.given_cost(miss_cost).log_prob(y).exp()
    average = average + p * p_y.given_cost(hit_cost).log_prob(y).exp()
    torch.testing.assert_close(average.log(), p_y.log_prob(y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gap", [-6.0, -0.8, 0.0, 1.5, 7.0], ids="gap={:g}".format)
@pytest.mark.parametrize("outcome", [False, True], ids=["missed", "hit"])
@pytest.mark.parametrize("scales", [(0.7, 1.3), (2.0, 0.3), (0.2, 3.0)], ids=str)
def test_moments_and_distribution_function_given_the_cost_are_integrals_of_the_density(
    scales: tuple[float, float], outcome: bool, gap: float
) -> None:
    scale, threshold_scale, t = (torch.tensor(v, dtype=torch.float64) for v in (*scales, 0.4))
    event = OrderEvent(dist.Normal(torch.zeros(1).double(), 1.0).to_event(1), torch.tensor([gap]))
    p_y = ThresholdNormal(event, t, threshold_scale, scale)
    cost = costs_on_each_side(event)[outcome]
    given, center = p_y.given_cost(cost), p_y.mean.item()
    reach = scales[0] * (12.0 + 2.0 * abs(gap))
    grid = torch.linspace(center - reach, center + reach, 400_001, dtype=torch.float64)
    density = given.log_prob(grid).exp()
    below = torch.cumulative_trapezoid(density, grid)
    assert below[-1].item() == pytest.approx(1.0, abs=1e-8)
    mean = torch.trapezoid(density * grid, grid)
    variance = torch.trapezoid(density * (grid - mean).square(), grid)
    torch.testing.assert_close(given.mean, mean, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(given.variance, variance, rtol=1e-6, atol=0)
    rare = event.log_prob(torch.tensor(float(outcome))).exp().item()
    for i in torch.searchsorted(below, torch.tensor([1e-4, 0.1, 0.5, 0.9]).double()).tolist():
        got = given.cdf(grid[i + 1]).item()
        assert got == pytest.approx(below[i].item(), abs=1e-8 + 1e-9 / rare)


@pytest.mark.parametrize("u", [-35.0, -12.5, 12.5, 35.0], ids="u={:g}".format)
@pytest.mark.parametrize("outcome", [False, True], ids=["missed", "hit"])
def test_moments_given_the_cost_have_their_digits_in_both_tails(u: float, outcome: bool) -> None:
    cost = dist.Normal(torch.zeros(1).double(), 1.0).to_event(1)
    event = OrderEvent(cost, torch.tensor([u], dtype=torch.float64))
    parameters = [torch.tensor(v, dtype=torch.float64) for v in (5.0, 1.3, 0.7)]
    given = ThresholdNormal(event, *parameters).given_cost(costs_on_each_side(event)[outcome])
    with mp.workdps(60):
        s, sign = mpf(0.7), 1 if outcome else -1
        spread, b = mp.hypot(s, mpf(1.3)), sign * mpf(u)
        hazard = mp.npdf(b) / mp.ncdf(b)
        mean = mpf(5) + spread * mpf(u) + sign * s**2 / spread * hazard
        variance = s**2 - s**4 / spread**2 * hazard * (hazard + b)
    assert worst_error([given.mean.item()], [mean], floor=1.0) < 1e-12
    assert worst_error([given.variance.item()], [variance], floor=0.0) < 1e-10


@shapes
def test_draws_through_explicit_costs_are_gaussian_again(shape: tuple[int, ...]) -> None:
    p_y = response(shape)
    c = p_y.event.cost.sample((20_000,))
    y = p_y.given_cost(c).sample()
    assert y.shape == (20_000,)
    normal = stats.norm(p_y.mean.item(), p_y.scale.item())
    assert stats.kstest(y.numpy(), normal.cdf).pvalue > DIFFERENT
    assert stats.kstest(p_y.sample((20_000,)).numpy(), normal.cdf).pvalue > DIFFERENT
    # Of one event alone they are not, so the test above has something to see.
    happened = p_y.event.given_cost(c).mean == 1.0
    assert stats.kstest(y[happened].numpy(), normal.cdf).pvalue < DIFFERENT


@pytest.mark.parametrize("outcome", [False, True], ids=["missed", "hit"])
def test_draws_given_the_event_are_those_on_its_side_of_the_threshold(outcome: bool) -> None:
    p_y = response((2, 3))
    t = dist.Normal(p_y.threshold_loc, p_y.threshold_scale).sample((60_000,))
    y = p_y.sample((60_000,))
    by_rejection = y[(y > t) == outcome][:20_000, None]
    cost = costs_on_each_side(p_y.event)[outcome]
    assert agreement(p_y.given_cost(cost).sample((20_000,))[:, None], by_rejection) > DIFFERENT


@dtypes
@pytest.mark.parametrize("u", [-40.0, -12.5, -1.0, 0.0, 3.0, 40.0], ids="u={:g}".format)
def test_mean_is_the_formula_of_appendix_d3_in_both_tails(u: float, dtype: torch.dtype) -> None:
    scale, threshold_scale, threshold_loc = (torch.tensor(v, dtype=dtype) for v in (0.7, 1.3, 5.0))
    cost = dist.Normal(torch.zeros(2, dtype=dtype), 1.0).to_event(1)
    event = OrderEvent(cost, torch.full((2,), u, dtype=dtype))
    p_y = ThresholdNormal(event, threshold_loc, threshold_scale, scale)
    log_zero, log_one = event_log_probs("Normal", [[mpf(u), mpf(u)]])
    smaller, sign = (log_one, 1) if log_one < log_zero else (log_zero, -1)
    with mp.workdps(60):
        quantile = sign * normal_quantile(smaller, start=-max(1.0, abs(u)))
        spread = mp.hypot(mpf(scale.item()), mpf(threshold_scale.item()))
        mean = spread * quantile + mpf(threshold_loc.item())
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    assert worst_error([p_y.mean.item()], [mean], floor=1.0) < tolerance
    assert p_y.variance.item() == pytest.approx(0.49)


def test_probability_above_the_threshold_is_that_of_the_event() -> None:
    p_y = response((2, 3), (200,))
    spread = torch.hypot(p_y.scale, p_y.threshold_scale)
    above = dist.Normal(torch.zeros(()), 1.0).cdf((p_y.mean - p_y.threshold_loc) / spread)
    torch.testing.assert_close(above, p_y.event.mean, rtol=1e-12, atol=0)


@families
@shapes
@dtypes
def test_weights_with_the_cost_drawn_equal_the_collapsed_weights(
    dtype: torch.dtype, shape: tuple[int, ...], family: str, gumbel: type
) -> None:
    p_y = response(shape, (6,), family, dtype)
    y = p_y.sample()
    posterior = p_y.cost_posterior(y)
    c = posterior.sample((30,))
    explicit = p_y.event.cost.log_prob(c) + p_y.given_cost(c).log_prob(y) - posterior.log_prob(c)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    collapsed = p_y.log_prob(y).expand(30, 6)
    torch.testing.assert_close(explicit, collapsed, rtol=0, atol=tolerance)


@pytest.mark.parametrize("distance", [-40.0, -9.0, 6.0, 12.0], ids="a={:g}".format)
def test_weights_are_equal_however_far_y_lies_from_the_threshold(distance: float) -> None:
    p_y = response((2,))
    y = p_y.threshold_loc + distance * p_y.threshold_scale
    posterior = p_y.cost_posterior(y)
    for c in costs_on_each_side(p_y.event):
        joint = p_y.event.cost.log_prob(c) + p_y.given_cost(c).log_prob(y)
        weight = joint - posterior.log_prob(c)
        torch.testing.assert_close(weight, p_y.log_prob(y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(2,), (2, 2)], ids=["K=2", "G=2,K=2"])
@pytest.mark.parametrize("shift", [-0.8, 0.6], ids=["low y", "high y"])
def test_costs_given_y_agree_with_rejection_sampling(shape: tuple[int, ...], shift: float) -> None:
    p_y = response(shape)
    y = p_y.threshold_loc + shift * p_y.threshold_scale
    prior = p_y.event.cost.sample((80_000,))
    likelihood = p_y.given_cost(prior).log_prob(y)
    kept = torch.rand(80_000) < (likelihood - likelihood.max()).exp()
    draws = p_y.cost_posterior(y).sample((10_000,))
    assert agreement(draws, prior[kept][:10_000]) > DIFFERENT
    assert agreement(draws, prior[:10_000]) < DIFFERENT


def test_mean_never_falls_when_a_revenue_rises() -> None:
    p_y = response((3, 2), (500,))
    event = p_y.event
    more = event.revenue + torch.rand_like(event.revenue).round() * 1e-3
    raised = OrderEvent(event.cost, more)
    high = ThresholdNormal(raised, p_y.threshold_loc, p_y.threshold_scale, p_y.scale)
    assert (high.mean >= p_y.mean).all()
    assert (high.mean > p_y.mean).any()


@pytest.mark.parametrize("explicit", [False, True], ids=["collapsed", "given cost"])
def test_gradients_pass_gradcheck(explicit: bool) -> None:
    revenue = torch.randn(3, 2, dtype=torch.float64)
    loc = torch.randn(3, 2, dtype=torch.float64)
    rest = [torch.rand(3, dtype=torch.float64) + 0.5 for _ in range(4)]
    cost = revenue - torch.tensor([[0.5], [0.5], [-0.5]])

    def log_prob(revenue: Tensor, loc: Tensor, *rest: Tensor) -> Tensor:
        y, *parameters = rest
        event = OrderEvent(dist.Normal(loc, 1.0).to_event(1), revenue)
        p_y = ThresholdNormal(event, *parameters)
        return (p_y.given_cost(cost) if explicit else p_y).log_prob(y)

    leaves = [t.requires_grad_() for t in (revenue, loc, *rest)]
    assert torch.autograd.gradcheck(log_prob, leaves)


def test_without_a_cost_it_is_a_normal_distribution() -> None:
    p_y = response((2,), (5,))
    y = p_y.mean + p_y.scale * torch.linspace(-6.0, 6.0, 5, dtype=torch.float64)
    normal = dist.Normal(p_y.mean, p_y.scale)
    torch.testing.assert_close(p_y.log_prob(y), normal.log_prob(y))
    torch.testing.assert_close(p_y.cdf(y), normal.cdf(y), rtol=1e-9, atol=1e-15)


def test_batch_of_the_parameters_alone_cannot_shrink() -> None:
    event = response((2,)).event
    rows = torch.ones(4, dtype=torch.float64)
    with pytest.raises(
        ValueError, match=r"batch_shape must be one to which \(4,\) broadcasts, got"
    ):
        ThresholdNormal(event, rows, rows, rows).expand((1,))


def test_marginalize_undoes_given_cost() -> None:
    p_y = response((2, 3), (4,))
    c = p_y.event.cost.sample()
    y = torch.randn(4, dtype=torch.float64)
    again = p_y.given_cost(c).marginalize(p_y.event.cost)
    assert again.cost is None
    assert torch.equal(again.log_prob(y), p_y.log_prob(y))
    assert not torch.equal(p_y.given_cost(c).log_prob(y), p_y.log_prob(y))


def test_validation_can_be_left_out() -> None:
    p_y = response((2,))
    event, parameters = p_y.event, (p_y.threshold_loc, p_y.threshold_scale, p_y.scale)
    nan = torch.tensor(math.nan, dtype=torch.float64)
    for checked in (p_y, p_y.expand((3,)), p_y.given_cost(torch.zeros(2))):
        with pytest.raises(ValueError, match="value argument"):
            checked.log_prob(nan)
    unchecked = ThresholdNormal(event, *parameters, validate_args=False)
    assert unchecked.given_cost(torch.zeros(2)).log_prob(nan).isnan()
