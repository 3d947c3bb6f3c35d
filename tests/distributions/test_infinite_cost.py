"""A cost that may be infinite: its density, its order event, and the costs given the outcome."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable

import pyro
import pyro.distributions as dist
import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import complement, standardized, tails, worst_error
from order_event_cases import (
    FLOOR,
    GRADIENT_TOLERANCE,
    TOLERANCE,
    dtypes,
    hard_revenues,
    independent,
    outcomes,
    random_parameters,
)
from pyro.infer import Trace_ELBO
from samplers import DIFFERENT, agreement
from scipy import integrate
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent, ThresholdNormal, ThresholdQuantile
from pyro_gcm.distributions.latent_mixture import LatentMixture
from pyro_gcm.inference import collapse, uncollapse

#: Log-odds of an infinite cost: hardly ever, sometimes, nearly always.
LOGITS = [-40.0, -9.0, -2.0, 0.0, 1.5, 12.0, 40.0]
DRAWS = 6_000

families = pytest.mark.parametrize("family", ["Normal", "Logistic"])
shapes = pytest.mark.parametrize("shape", [(1,), (3,), (1, 2), (3, 2), (4, 1)], ids=str)
event_shapes = pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=["K", "G,K"])
duplicates = pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))],
    ids=["deepcopy", "pickle"],
)


def hard_event(
    family: str, rows: int, shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[OrderEvent, dict[str, Tensor]]:
    """Revenues from -40 to 40 standard deviations against logits from -40 to 40."""
    full = (rows, *shape)
    u = hard_revenues(rows, 1 if len(shape) == 1 else shape[0], shape[-1]).reshape(full).to(dtype)
    loc, scale = random_parameters(u.shape, dtype)
    logits = torch.tensor(LOGITS, dtype=dtype)[torch.randint(len(LOGITS), full[:-1])]
    leaves = {"revenue": loc + scale * u, "loc": loc, "scale": scale, "logits": logits}
    leaves = {name: leaf.requires_grad_() for name, leaf in leaves.items()}
    cost = InfiniteCost(independent(family, loc, scale, len(shape)), logits)
    return OrderEvent(cost, leaves["revenue"]), leaves


def fair_event(
    shape: tuple[int, ...],
    family: str = "Normal",
    batch_shape: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float64,
) -> OrderEvent:
    """An event of random parameters, both of whose outcomes have a fair chance."""
    full = batch_shape + shape
    loc, scale = torch.randn(full, dtype=dtype), 0.5 + torch.rand(full, dtype=dtype)
    logits = 0.5 * torch.randn(full[:-1], dtype=dtype) - 0.5
    revenue = loc + scale * (0.4 * torch.randn(full, dtype=dtype) + 0.6)
    return OrderEvent(InfiniteCost(independent(family, loc, scale, len(shape)), logits), revenue)


class Row:
    """One alternative in mpmath: Pr(c < r) = (1 - p0) prod_k F_k, all of it in logarithms."""

    def __init__(self, family: str, u: list[mpf], logit: float) -> None:
        self.tails = [tails(family, v) for v in u]
        self.log_infinite = -mp.log1p(mp.exp(-mpf(logit)))
        self.log_hit = mp.fsum(t.log_p for t in self.tails) - mp.log1p(mp.exp(mpf(logit)))
        self.log_miss = complement(self.log_hit)


def reference(family: str, leaves: dict[str, Tensor]) -> list[list[Row]]:
    """The rows [B][G] of an event, from the very numbers in its tensors."""
    revenue, loc, scale, logits = (leaf.detach() for leaf in leaves.values())
    if logits.dim() == 1:
        revenue, loc, scale, logits = (t.unsqueeze(1) for t in (revenue, loc, scale, logits))
    events = zip(*(t.tolist() for t in (revenue, loc, scale, logits)), strict=True)
    return [
        [
            Row(family, [standardized(*one) for one in zip(r, m, s, strict=True)], logit)
            for r, m, s, logit in zip(*event, strict=True)
        ]
        for event in events
    ]


def log_probs(rows: list[Row]) -> tuple[mpf, mpf]:
    log_zero = mp.fsum(row.log_miss for row in rows)
    return log_zero, complement(log_zero)


def finite(draws: Tensor) -> Tensor:
    """Draws with their infinite costs far away from the others, at a place that has a rank."""
    return draws.nan_to_num(posinf=100.0)


# Its order event


@families
@shapes
@outcomes
@dtypes
def test_log_prob_has_all_digits_in_both_tails_and_at_both_ends_of_p0(
    dtype: torch.dtype, outcome: float, shape: tuple[int, ...], family: str
) -> None:
    event, leaves = hard_event(family, 40, shape, dtype)
    got = event.log_prob(torch.tensor(outcome, dtype=dtype))
    assert got.dtype == dtype
    with mp.workdps(60):
        exact = [log_probs(rows)[int(outcome)] for rows in reference(family, leaves)]
        assert worst_error(got.tolist(), exact, FLOOR[dtype]) <= TOLERANCE[dtype]
        lifted = event.log_probs64()[int(outcome)].tolist()
        assert worst_error(lifted, exact, FLOOR[torch.float64]) <= TOLERANCE[torch.float64]


@families
@shapes
@outcomes
@dtypes
def test_gradient_has_its_digits_in_revenues_and_in_logits(
    dtype: torch.dtype, outcome: float, shape: tuple[int, ...], family: str
) -> None:
    event, leaves = hard_event(family, 30, shape, dtype)
    event.log_prob(torch.tensor(outcome, dtype=dtype)).sum().backward()
    by_revenue, by_logits = [], []
    with mp.workdps(60):
        scales = leaves["scale"].detach().reshape(30, -1, shape[-1]).tolist()
        for rows, units in zip(reference(family, leaves), scales, strict=True):
            log_zero, log_one = log_probs(rows)
            sign = mp.exp(log_zero - log_one) if outcome else mpf(-1)
            for row, unit in zip(rows, units, strict=True):
                odds = row.log_hit - row.log_miss
                by_logits.append(-sign * mp.exp(odds + row.log_infinite))
                by_revenue += [
                    sign * mp.exp(odds + t.log_density - t.log_p) / mpf(s)
                    for t, s in zip(row.tails, unit, strict=True)
                ]
        for name, exact in (("revenue", by_revenue), ("logits", by_logits)):
            grad = leaves[name].grad.flatten().tolist()
            assert worst_error(grad, exact, FLOOR[dtype]) <= GRADIENT_TOLERANCE[dtype], name
    assert all(leaf.grad.isfinite().all() for leaf in leaves.values())


@families
@event_shapes
def test_gradient_agrees_with_differences_in_every_parameter(
    shape: tuple[int, ...], family: str
) -> None:
    event = fair_event(shape, family, (2,))
    base = event.cost.cost.base_dist

    def both(loc: Tensor, scale: Tensor, logits: Tensor, revenue: Tensor) -> tuple[Tensor, ...]:
        cost = InfiniteCost(independent(family, loc, scale, len(shape)), logits)
        return OrderEvent(cost, revenue).log_probs()

    leaves = (base.loc, base.scale, event.cost.logits, event.revenue)
    assert torch.autograd.gradcheck(both, [leaf.clone().requires_grad_() for leaf in leaves])


@families
@shapes
def test_probability_is_that_of_the_story(shape: tuple[int, ...], family: str) -> None:
    event = fair_event(shape, family, (4,))
    base, count = event.cost.cost.base_dist, 40_000
    c = base.sample((count,))
    gone = torch.rand(count, 4, *shape[:-1], dtype=torch.float64) < event.cost.logits.sigmoid()
    hit = (c < event.revenue).all(-1) & ~gone
    y = (hit.any(-1) if len(shape) == 2 else hit).double()
    p = event.mean
    error = (p * (1.0 - p) / count).sqrt()
    assert ((y.mean(0) - p).abs() < 5.0 * error).all()
    of_draws = event.given_cost(event.cost.sample((count,))).mean.mean(0)
    assert ((of_draws - p).abs() < 5.0 * error).all()


@dtypes
@outcomes
def test_gaussian_revenue_is_below_a_finite_cost_or_an_infinite_one(
    outcome: float, dtype: torch.dtype
) -> None:
    u = hard_revenues(30, 1, 3)[:, 0].to(dtype)
    loc, scale = random_parameters(u.shape, dtype)
    _, spread = random_parameters(u.shape, dtype)
    logits = torch.tensor(LOGITS, dtype=dtype)[torch.randint(len(LOGITS), (30,))]
    revenue = independent("Normal", loc + torch.hypot(scale, spread) * u, spread)
    event = OrderEvent(InfiniteCost(independent("Normal", loc, scale), logits), revenue)
    with mp.workdps(60):
        exact = []
        numbers = (revenue.base_dist.loc, loc, scale, spread)
        for *row, logit in zip(*(t.tolist() for t in (*numbers, logits)), strict=True):
            standard = [
                (mpf(r) - mpf(m)) / mp.hypot(mpf(s), mpf(t))
                for r, m, s, t in zip(*row, strict=True)
            ]
            exact.append(log_probs([Row("Normal", standard, logit)])[int(outcome)])
        got = event.log_prob(torch.tensor(outcome, dtype=dtype)).tolist()
        assert worst_error(got, exact, FLOOR[dtype]) <= TOLERANCE[dtype]


@shapes
@dtypes
def test_no_revenue_takes_the_probability_above_one_minus_p0(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    event = fair_event(shape, batch_shape=(5,), dtype=dtype)
    p0 = event.cost.p0.prod(-1) if len(shape) == 2 else event.cost.p0
    at_infinity = OrderEvent(event.cost, torch.full(shape, math.inf, dtype=dtype))
    torch.testing.assert_close(at_infinity.mean, 1.0 - p0)
    torch.testing.assert_close(at_infinity.log_probs()[0], p0.log())
    ways = torch.linspace(-5.0, 60.0, 100, dtype=dtype).reshape(-1, 1, *(1,) * len(shape))
    rising = OrderEvent(event.cost, event.revenue + ways).log_probs64()[1]
    assert (rising.diff(dim=0) >= 0.0).all()
    assert (rising <= at_infinity.log_probs64()[1]).all()
    assert (rising[0] < at_infinity.log_probs64()[1] - 0.1).all()


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


@families
@shapes
def test_without_an_infinite_cost_it_is_the_plain_event(
    shape: tuple[int, ...], family: str
) -> None:
    event, leaves = hard_event(family, 40, shape, torch.float64)
    plain = event.cost.cost
    never = InfiniteCost(plain, leaves["logits"] * 0.0 - math.inf)
    with_atom, without = (OrderEvent(cost, leaves["revenue"]) for cost in (never, plain))
    for got, want in zip(with_atom.log_probs(), without.log_probs(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-300)
        slopes = torch.autograd.grad(got.sum(), list(leaves.values()), retain_graph=True)
        plain_slopes = torch.autograd.grad(want.sum(), list(leaves.values())[:3], retain_graph=True)
        for slope, other in zip(slopes, plain_slopes, strict=False):
            torch.testing.assert_close(slope, other, rtol=1e-12, atol=1e-300)
        assert not slopes[3].any()
    c = never.sample((50,))
    assert c.isfinite().all()
    torch.testing.assert_close(never.log_prob(c), plain.log_prob(c), rtol=1e-14, atol=0.0)
    assert torch.equal(never.mean, plain.mean)
    assert torch.equal(never.variance, plain.variance)


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


def test_density_is_that_of_each_alternative_finite_infinite_or_neither() -> None:
    loc = torch.tensor([[0.0, 1.0], [2.0, -1.0]], dtype=torch.float64)
    logits = torch.tensor([-1.0, 0.5], dtype=torch.float64)
    cost = InfiniteCost(independent("Normal", loc, torch.ones_like(loc), 2), logits)
    row = dist.Normal(loc, 1.0).log_prob(torch.tensor(0.5)).sum(-1)
    finite, infinite = (1.0 - logits.sigmoid()).log() + row, logits.sigmoid().log()
    inf, at = math.inf, 0.5
    expected = {
        ((at, at), (at, at)): finite.sum(),
        ((inf, inf), (at, at)): infinite[0] + finite[1],
        ((at, at), (inf, inf)): finite[0] + infinite[1],
        ((inf, inf), (inf, inf)): infinite.sum(),
        ((inf, at), (at, at)): -inf,
        ((at, at), (at, inf)): -inf,
        ((-inf, -inf), (at, at)): -inf,
        ((inf, -inf), (at, at)): -inf,
    }
    for value, log_p in expected.items():
        got = cost.log_prob(torch.tensor(value, dtype=torch.float64))
        torch.testing.assert_close(got, torch.as_tensor(log_p, dtype=torch.float64))


@families
@dtypes
@event_shapes
def test_density_has_finite_gradients_also_at_infinity(
    shape: tuple[int, ...], dtype: torch.dtype, family: str
) -> None:
    full = (20, *shape)
    loc, scale = random_parameters(torch.Size(full), dtype)
    logits = torch.tensor([*LOGITS, -math.inf, math.inf, 0.0] * 2, dtype=dtype)
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


@families
def test_density_and_atom_have_mass_one(family: str) -> None:
    logits = torch.tensor(0.3, dtype=torch.float64)
    cost = independent(family, torch.tensor([0.5]).double(), torch.tensor([0.7]).double())
    cost = InfiniteCost(cost, logits)

    def density(c: float) -> float:
        return cost.log_prob(torch.tensor([c], dtype=torch.float64)).exp().item()

    mass = sum(integrate.quad(density, a, b)[0] for a, b in [(-60.0, 0.5), (0.5, 60.0)])
    assert mass == pytest.approx(1.0 - cost.p0.item(), abs=1e-8)
    assert density(math.inf) == pytest.approx(cost.p0.item(), rel=1e-12)


@event_shapes
def test_draws_have_infinite_alternatives_with_probability_p0(shape: tuple[int, ...]) -> None:
    count = 20_000
    event = fair_event(shape, batch_shape=(3,))
    c = event.cost.sample((count,))
    gone = c.isposinf()
    assert (gone.all(-1) == gone.any(-1)).all()
    p0 = event.cost.p0
    error = 5.0 * (p0 * (1.0 - p0) / count).sqrt()
    assert ((gone.all(-1).double().mean(0) - p0).abs() < error).all()
    if len(shape) == 2:  # independently
        both = gone.all(-1).all(-1).double().mean(0)
        assert ((both - p0.prod(-1)).abs() < 5.0 / count**0.5).all()
    values = c[c.isfinite().flatten(1).all(-1)]
    others = event.cost.cost.sample((len(values),))
    assert len(values) > 50
    assert agreement(values, others) > DIFFERENT


def test_log_probabilities_of_the_atom_have_their_digits() -> None:
    logits = torch.tensor([-800.0, *LOGITS, 800.0], dtype=torch.float64)
    cost = InfiniteCost(independent("Normal", torch.zeros(9, 2), torch.ones(9, 2)), logits)
    with mp.workdps(400):
        infinite = [-mp.log1p(mp.exp(-mpf(v))) for v in logits.tolist()]
        finite = [-mp.log1p(mp.exp(mpf(v))) for v in logits.tolist()]
        assert worst_error(cost.log_infinite.tolist(), infinite, 1e-290) < 1e-15
        assert worst_error(cost.log_finite.tolist(), finite, 1e-290) < 1e-15
        assert worst_error(cost.p0.tolist(), [mp.exp(v) for v in infinite], 1e-290) < 1e-13


def test_mean_is_infinite_where_the_cost_may_be() -> None:
    logits = torch.tensor([-math.inf, -800.0, 0.0])
    cost = InfiniteCost(independent("Normal", torch.ones(3, 2), 2 * torch.ones(3, 2)), logits)
    assert cost.mean.tolist() == [[1.0, 1.0], [math.inf] * 2, [math.inf] * 2]
    assert cost.variance.tolist() == [[4.0, 4.0], [math.inf] * 2, [math.inf] * 2]


# The costs given the outcome


@dtypes
@families
@shapes
def test_draws_given_the_outcome_agree_with_it(
    shape: tuple[int, ...], family: str, dtype: torch.dtype
) -> None:
    rows, draws = 300, 100
    loc, scale = random_parameters(torch.Size((rows, *shape)), dtype)
    u = torch.linspace(-30.0, 30.0, rows, dtype=dtype).reshape(-1, *(1,) * len(shape))
    revenue = loc + scale * (u + torch.randn(rows, *shape, dtype=dtype)).clamp(-30.0, 30.0)
    revenue[::7] = math.inf
    logits = torch.tensor(LOGITS, dtype=dtype)[torch.randint(len(LOGITS), (rows, *shape[:-1]))]
    event = OrderEvent(InfiniteCost(independent(family, loc, scale, len(shape)), logits), revenue)
    for y in (0.0, 1.0):
        c = event.cost_posterior(torch.tensor(y)).sample((draws,))
        assert c.dtype == dtype
        assert (event.given_cost(c).mean == y).all()
        assert (c.isposinf().all(-1) == c.isposinf().any(-1)).all()
        assert not c.isnan().any()


@outcomes
@families
@shapes
def test_draws_given_the_outcome_are_those_of_rejection_sampling(
    shape: tuple[int, ...], family: str, outcome: float
) -> None:
    event = fair_event(shape, family)
    draws = event.cost_posterior(torch.tensor(outcome)).sample((DRAWS,))
    prior = event.cost.sample((20 * DRAWS,))
    kept = prior[event.given_cost(prior).mean == outcome][:DRAWS]
    assert len(kept) == DRAWS
    shares = [c.isposinf().all(-1).double().mean(0) for c in (draws, kept)]
    assert ((shares[0] - shares[1]).abs() < 5.0 * math.sqrt(0.5 / DRAWS)).all()
    assert agreement(finite(draws - event.revenue), finite(kept - event.revenue)) > DIFFERENT
    for one, other in zip(draws.flatten(1).T, kept.flatten(1).T, strict=True):
        one, other = (c[c.isfinite()].unsqueeze(-1) for c in (one, other))
        if min(len(one), len(other)) > 100:
            assert agreement(one, other) > DIFFERENT


def test_share_of_infinite_costs_given_a_miss_is_that_of_bayes() -> None:
    event = fair_event((2,), batch_shape=(6,))
    log_zero, _ = event.log_probs64()
    expected = (event.cost.log_infinite - log_zero).exp()
    c = event.cost_posterior(torch.zeros(6)).sample((20_000,))
    share = c.isposinf().all(-1).double().mean(0)
    assert ((share - expected).abs() < 5.0 * (expected * (1 - expected) / 20_000).sqrt()).all()


@dtypes
@outcomes
@families
@shapes
def test_density_given_the_outcome_is_that_of_bayes(
    shape: tuple[int, ...], family: str, outcome: float, dtype: torch.dtype
) -> None:
    event = fair_event(shape, family, (5,), dtype)
    y = torch.tensor(outcome, dtype=dtype)
    posterior = event.cost_posterior(y)
    c = posterior.sample((200,))
    joint = event.cost.log_prob(c) + event.given_cost(c).log_prob(y)
    assert joint.isfinite().all()
    evidence = event.log_prob(y).expand(200, 5)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(joint - posterior.log_prob(c), evidence, rtol=0, atol=tolerance)
    other = event.cost_posterior(1.0 - y).log_prob(c)
    assert (other == -math.inf).all()


def test_uncertain_outcome_mixes_the_two_posteriors() -> None:
    event = fair_event((2, 2))
    c = event.cost_posterior(torch.tensor(0.3)).sample((20_000,))
    happened = event.given_cost(c).mean == 1.0
    assert happened.double().mean().item() == pytest.approx(0.3, abs=0.015)
    for y in (0.0, 1.0):
        of_outcome = c[happened == bool(y)]
        certain = event.cost_posterior(torch.tensor(y)).sample((len(of_outcome),))
        assert agreement(finite(of_outcome), finite(certain)) > DIFFERENT


# As a part of programs and of other distributions


@event_shapes
@pytest.mark.parametrize("sample_shape", [(), (3,), (2, 1)], ids=str)
@pytest.mark.parametrize("logits_shape", ["one", "batch", "row", "full", "more"])
def test_shapes_are_those_of_any_distribution(
    logits_shape: str, sample_shape: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    rows = shape[:-1]
    sizes = {
        "one": (),
        "batch": (5, *(1,) * len(rows)),
        "row": rows,
        "full": (5, *rows),
        "more": (4, 1, *rows),
    }[logits_shape]
    batch_shape = (4, 5) if logits_shape == "more" else (5,)
    plain = independent("Normal", torch.zeros(5, *shape), torch.ones(5, *shape), len(shape))
    cost = InfiniteCost(plain, torch.randn(sizes))
    assert (cost.batch_shape, cost.event_shape) == (batch_shape, shape)
    assert cost.p0.shape == cost.log_finite.shape == cost.log_infinite.shape == batch_shape + rows
    assert cost.mean.shape == cost.variance.shape == batch_shape + shape
    c = cost.sample(torch.Size(sample_shape))
    assert c.shape == sample_shape + batch_shape + shape
    log_p = cost.log_prob(c)
    assert log_p.shape == sample_shape + batch_shape
    assert log_p.isfinite().all()

    wide = cost.expand((7, *batch_shape))
    assert wide.sample(torch.Size(sample_shape)).shape == (*sample_shape, 7, *batch_shape, *shape)
    value = c.unsqueeze(len(sample_shape))
    again = wide.log_prob(value.expand(*sample_shape, 7, *batch_shape, *shape))
    assert torch.equal(again.movedim(len(sample_shape), 0)[3], log_p)
    assert not cost.mask(torch.tensor(False)).log_prob(c).any()
    assert cost.to_event(1).log_prob(c).shape == sample_shape + batch_shape[:-1]

    event = OrderEvent(cost, torch.randn(6, *(1,) * len(batch_shape + rows), shape[-1]))
    assert event.log_probs()[0].shape == event.batch_shape == (6, *batch_shape)
    draws = event.cost_posterior(torch.zeros(())).sample(torch.Size(sample_shape))
    assert draws.shape == (*sample_shape, 6, *batch_shape, *shape)
    assert event.expand((2, 6, *batch_shape)).mean.shape == (2, 6, *batch_shape)


@duplicates
@event_shapes
def test_copies_give_the_same_bits(
    shape: tuple[int, ...], duplicate: Callable[[OrderEvent], OrderEvent]
) -> None:
    event = fair_event(shape, batch_shape=(4,))
    again = duplicate(event)
    assert torch.equal(again.log_probs()[0], event.log_probs()[0])
    c = event.cost.sample((9,))
    assert torch.equal(again.cost.log_prob(c), event.cost.log_prob(c))
    draws = []
    for same in (event, again):
        torch.manual_seed(1)
        draws += [same.cost_posterior(torch.zeros(4)).sample((9,))]
    assert torch.equal(*draws)


def test_type_and_device_come_from_the_parameters() -> None:
    for dtype in (torch.float32, torch.float64):
        event = fair_event((2, 3), batch_shape=(4,), dtype=dtype)
        c = event.cost.sample()
        assert c.dtype == event.cost.log_prob(c).dtype == event.mean.dtype == dtype
        assert event.cost_posterior(torch.zeros(4)).sample().dtype == dtype
    loc = torch.zeros(4, 2, 3, device="meta")
    plain = dist.Normal(loc, torch.ones_like(loc), validate_args=False).to_event(2)
    cost = InfiniteCost(plain, loc[..., 0], validate_args=False)
    event = OrderEvent(cost, loc, validate_args=False)
    posterior = event.cost_posterior(torch.ones(4, device="meta"))
    for value in (cost.sample(), cost.log_prob(loc), cost.mean, event.mean, posterior.sample()):
        assert value.device.type == "meta"


@event_shapes
def test_program_collapses_and_recovers_its_costs_in_plates(shape: tuple[int, ...]) -> None:
    event = fair_event(shape, batch_shape=(6,), dtype=torch.float32)
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
    assert c.isposinf().any()
    elbo = Trace_ELBO(16, vectorize_particles=True, max_plate_nesting=1)
    assert elbo.loss(model, guide, y) == pytest.approx(-expected.sum().item(), rel=1e-5)


def mixture(
    batch_shape: tuple[int, ...] = (), shape: tuple[int, ...] = (1,), family: str = "Normal"
) -> LatentMixture:
    component = fair_event(shape, family, (5, *batch_shape)).cost
    units = torch.randn(shape[-1:]).double(), torch.rand(shape[-1:]).double() + 2.0
    return LatentMixture(component, *units)


@families
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
    event = fair_event(shape, batch_shape=(5,))
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
        fair_event(shape, batch_shape=(5,)).marginalize(p_y.event.cost),
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

    event = fair_event(shape, batch_shape=(5,))
    event.cost.logits.requires_grad_()
    p_y = quantile(event)
    cap = quantile(OrderEvent(event.cost, torch.full(shape, math.inf))).loc
    assert cap.isfinite().all()
    assert (p_y.loc < cap).all()
    p_y.log_prob(ones).sum().backward()
    assert event.cost.logits.grad.isfinite().all()
    assert p_y.cost_posterior(ones).sample((4,)).shape == (4, 5, *shape)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda plain: InfiniteCost(dist.Normal(torch.zeros(2), 1.0), torch.zeros(2)),
            r"cost has event_dim 0, expected 1 for \[K\] or 2 for \[G, K\]; use .to_event",
        ),
        (
            lambda plain: InfiniteCost(
                dist.MultivariateNormal(torch.zeros(2), torch.eye(2)), torch.tensor(0.0)
            ),
            "independent coordinates .* got MultivariateNormal",
        ),
        (
            lambda plain: InfiniteCost(InfiniteCost(plain, torch.tensor(0.0)), torch.tensor(0.0)),
            "independent coordinates .* got InfiniteCost",
        ),
        (
            lambda plain: OrderEvent(plain, InfiniteCost(plain, torch.tensor(0.0))),
            "independent coordinates .* got InfiniteCost",
        ),
        (
            lambda plain: OrderEvent(
                InfiniteCost(plain, torch.zeros(3)).to_event(1), torch.zeros(3, 2)
            ),
            "independent coordinates .* got InfiniteCost",
        ),
        (lambda plain: InfiniteCost(plain, torch.tensor(math.nan)), "logits"),
        (
            lambda plain: OrderEvent(
                InfiniteCost(dist.Laplace(torch.zeros(2), 1.0).to_event(1), torch.tensor(0.0)),
                plain,
            ),
            "Gaussian cost and Gaussian revenue only, got Laplace and Normal",
        ),
    ],
    ids=[
        "event_dim 0",
        "correlated cost",
        "infinite twice",
        "infinite revenue",
        "infinite cost under to_event",
        "NaN logits",
        "non-Gaussian pair",
    ],
)
def test_arguments_without_a_meaning_are_refused(
    build: Callable[[dist.TorchDistribution], object], message: str
) -> None:
    plain = independent("Normal", torch.zeros(2), torch.ones(2))
    with pytest.raises(ValueError, match=message):
        build(plain)


def test_validation_can_be_left_out() -> None:
    plain = independent("Normal", torch.zeros(2), torch.ones(2))
    InfiniteCost(plain, torch.tensor(math.nan), validate_args=False)
    cost = InfiniteCost(plain, torch.tensor(0.0))
    for checked in (cost, cost.expand((3,))):
        with pytest.raises(ValueError, match="value argument"):
            checked.log_prob(torch.full((2,), math.nan))
