"""Costs seen in part: density of what was seen, event and costs given it, by enumeration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from order_event_cases import DIFFERENT, agreement, dtypes, finite, independent, outcomes
from scipy import stats
from torch import Tensor

from pyro_gcm.distributions import (
    InfiniteCost,
    ObservedCost,
    OrderEvent,
    PartlyKnown,
    given_observed,
)
from pyro_gcm.distributions.families import tail_log_probs

NAN = math.nan
SCIPY = {"Normal": stats.norm, "Logistic": stats.logistic, "Laplace": stats.laplace}
families = pytest.mark.parametrize("family", SCIPY)
infinite = pytest.mark.parametrize("p0", [None, 0.3], ids=["finite", "infinite"])
shapes = pytest.mark.parametrize("shape", [(1,), (2,), (3,), (1, 2), (2, 2), (3, 1)], ids=str)


def cost_of(
    shape: tuple[int, ...],
    family: str = "Normal",
    p0: float | None = None,
    batch: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float64,
) -> Any:
    loc, scale = torch.randn(*batch, *shape, dtype=dtype), 0.5 + torch.rand(shape, dtype=dtype)
    cost = independent(family, loc, scale, len(shape))
    if p0 is None:
        return cost
    return InfiniteCost(cost, torch.full(shape[:-1], math.log(p0 / (1 - p0)), dtype=dtype))


def patterns(shape: tuple[int, ...]) -> list[Tensor]:
    """All ways to see some of the costs, each cost seen below or above the revenue 0."""
    signs = itertools.product([-0.6, NAN, 0.9], repeat=math.prod(shape))
    return [torch.tensor(one, dtype=torch.float64).reshape(shape) for one in signs]


def by_enumeration(cost: Any, family: str, p0: float, seen: Tensor, outcome: float) -> float:
    """p(c_seen, y | r = 0), a sum over the sides of 0 and over which alternatives are infinite."""
    base = (cost.cost if isinstance(cost, InfiniteCost) else cost).base_dist
    law = SCIPY[family](base.loc.numpy(), base.scale.numpy())
    rows = np.atleast_2d(seen.numpy())
    known = ~np.isnan(rows)
    pdf, below = np.atleast_2d(law.pdf(seen.nan_to_num().numpy())), np.atleast_2d(law.cdf(0.0))
    total = 0.0
    for unbounded in itertools.product([False, True], repeat=len(rows)):
        atoms = np.prod([p0 if one else 1.0 - p0 for one in unbounded])
        if any(one and some.any() for one, some in zip(unbounded, known, strict=True)):
            continue  # what was seen is finite
        for hit in itertools.product([True, False], repeat=rows.size):
            sides = np.reshape(hit, rows.shape)
            if (sides != (rows < 0.0))[known].any():
                continue
            happened = (sides.all(1) & ~np.array(unbounded)).any()
            if happened == bool(outcome):
                mass = np.where(known, pdf, np.where(sides, below, 1.0 - below))
                total += atoms * mass.prod()
    return total


@pytest.mark.long(keep=9)
@infinite
@families
@shapes
def test_density_and_event_together_are_the_enumerated_joint(
    shape: tuple[int, ...], family: str, p0: float | None
) -> None:
    cost, revenue = cost_of(shape, family, p0), torch.zeros(shape[-1:], dtype=torch.float64)
    every = patterns(shape)
    chosen = every if len(every) <= 27 else [every[i] for i in torch.randperm(81)[:27]]
    loc, scale = torch.randn(shape).double() + 50.0, torch.rand(shape).double() + 3.0
    for seen in chosen:
        density = ObservedCost(cost, loc, scale).log_prob(loc + scale * seen)  # in other units
        density = density + scale[~seen.isnan()].log().sum()
        event = OrderEvent(given_observed(cost, seen), revenue)
        for outcome in (0.0, 1.0):
            found = (density + event.log_prob(torch.tensor(outcome))).exp().item()
            wanted = by_enumeration(cost, family, p0 or 0.0, seen, outcome)
            assert found == pytest.approx(wanted, rel=1e-11, abs=1e-14)


@families
def test_all_of_a_cost_has_its_own_density_and_none_of_it_density_one(family: str) -> None:
    for shape, p0 in itertools.product([(3,), (2, 2)], [None, 0.4]):
        cost = cost_of(shape, family, p0, batch=(20,))
        c = cost.sample()
        c = torch.where(c.isinf(), torch.randn(c.shape, dtype=c.dtype), c)
        torch.testing.assert_close(ObservedCost(cost).log_prob(c), cost.log_prob(c))
        assert not ObservedCost(cost).log_prob(torch.full_like(c, NAN)).any()
        event = OrderEvent(given_observed(cost, c), torch.zeros(shape[-1]))
        assert torch.equal(
            event.mean, OrderEvent(c, torch.zeros(shape[-1]), cost_event_dim=len(shape)).mean
        )
        nothing = OrderEvent(given_observed(cost, torch.full_like(c, NAN)), torch.zeros(shape[-1]))
        for mine, plain in zip(
            nothing.log_probs(), OrderEvent(cost, torch.zeros(shape[-1])).log_probs(), strict=True
        ):
            torch.testing.assert_close(mine, plain, rtol=1e-14, atol=0.0)


# The costs that were not seen


@dtypes
@outcomes
@infinite
@pytest.mark.parametrize(
    ("family", "shape"),
    [("Normal", (1,)), ("Laplace", (2,)), ("Logistic", (3,)), ("Normal", (2, 2))],
    ids=str,
)
def test_draws_keep_what_was_seen_and_agree_with_the_outcome(
    shape: tuple[int, ...], family: str, p0: float | None, outcome: float, dtype: torch.dtype
) -> None:
    rows = 200
    cost = cost_of(shape, family, p0, (rows,), dtype)
    seen = torch.where(torch.rand(rows, *shape) < 0.4, torch.randn(rows, *shape), NAN).to(dtype)
    revenue = (2.0 * torch.randn(rows, *(1,) * (len(shape) - 1), shape[-1])).to(dtype)
    event = OrderEvent(given_observed(cost, seen), revenue)
    possible = event.log_prob(torch.tensor(outcome)) > -math.inf
    assert possible.double().mean() > 0.3
    c = event.cost_posterior(torch.tensor(outcome)).sample((50,))
    assert c.dtype == dtype
    known = ~seen.isnan() & possible.reshape(-1, *(1,) * len(shape))
    assert torch.equal(c[:, known], seen[known].expand(50, -1))
    assert (event.given_cost(c).mean == outcome)[:, possible].all()
    assert not c.isnan().any()
    rowwise = c.isposinf().any(-1)
    assert torch.equal(rowwise, c.isposinf().all(-1))
    assert not rowwise[:, known.any(-1)].any()


CASES = {
    "K=1 of 2": torch.tensor([-0.6, NAN]),
    "K=2 of 3": torch.tensor([NAN, 0.2, NAN]),
    "first alternative": torch.tensor([[-0.6, NAN], [NAN, NAN]]),
    "a miss in one, a hit in the other": torch.tensor([[0.9, NAN], [NAN, -0.3]]),
}


@outcomes
@infinite
@pytest.mark.parametrize(
    ("case", "family"), list(zip(CASES, ["Logistic", "Normal"] * 2, strict=True))
)
def test_draws_of_the_unseen_are_those_of_rejection(
    case: str, family: str, p0: float | None, outcome: float
) -> None:
    seen, draws = CASES[case].double(), 5000
    shape = tuple(seen.shape)
    cost, revenue = cost_of(shape, family, p0), torch.full(shape, 0.4, dtype=torch.float64)
    event = OrderEvent(given_observed(cost, seen), revenue)
    c = event.cost_posterior(torch.tensor(outcome)).sample((draws,))
    # From p(c): all that is seen is finite, and as independent costs take no notice of it, so does
    # its value.
    prior = cost.sample((40 * draws,))
    reached = prior.isfinite().all(-1) | seen.isnan().all(-1)
    prior = prior[reached if len(shape) == 1 else reached.all(-1)]
    prior = torch.where(seen.isnan(), prior, seen)
    happened = OrderEvent(prior, revenue, cost_event_dim=len(shape)).mean
    kept = prior[happened == outcome][:draws]
    assert len(kept) == draws
    assert agreement(finite(c - revenue), finite(kept - revenue)) > DIFFERENT
    shares = [one.isposinf().double().mean(0) for one in (c, kept)]
    assert (shares[0] - shares[1]).abs().max() < 5.0 * (0.5 / draws) ** 0.5


# As a part of programs


@dtypes
@infinite
@families
@pytest.mark.parametrize("shape", [(3,), (2, 2)], ids=str)
def test_gradients_are_finite_also_where_the_outcome_is_impossible(
    shape: tuple[int, ...], family: str, p0: float | None, dtype: torch.dtype
) -> None:
    rows = 200
    u = (40.0 * torch.rand(rows, *shape) - 20.0).to(dtype)
    loc, scale = torch.randn(rows, *shape), 0.5 + torch.rand(rows, *shape)
    logits = torch.tensor([-30.0, 0.0, 30.0])[torch.randint(3, (rows, *shape[:-1]))]
    leaves = [t.to(dtype).requires_grad_() for t in (loc, scale, u, logits)]
    cost: Any = independent(family, leaves[0], leaves[1], len(shape))
    if p0 is not None:
        cost = InfiniteCost(cost, leaves[3])
    seen = torch.where(torch.rand(rows, *shape) < 0.5, 20.0 * torch.randn(rows, *shape), NAN)
    event = OrderEvent(given_observed(cost, seen.to(dtype)), leaves[2])
    density = ObservedCost(cost, 0.3, 2.0).log_prob(seen.to(dtype))
    for y in (0.0, 1.0):
        log_p = event.log_prob(torch.tensor(y, dtype=dtype))
        assert (log_p == -math.inf).any()
        assert not log_p.isnan().any()
        total = density.sum() + log_p.sum()
        wanted = leaves[: 4 if p0 is not None else 3]
        for gradient in torch.autograd.grad(total, wanted, retain_graph=True):
            assert gradient.isfinite().all()
        # On which side of its revenue a known cost lies does not depend on the parameters.
        for gradient in torch.autograd.grad(log_p.sum(), leaves[:3], retain_graph=True):
            assert not gradient[~seen.isnan()].any()


def test_density_passes_gradients_to_the_cost() -> None:
    loc = torch.tensor([[0.2, -0.5]], dtype=torch.float64, requires_grad=True)
    raw = torch.tensor([[0.1, 0.4]], dtype=torch.float64, requires_grad=True)
    logits = torch.tensor([-0.7], dtype=torch.float64, requires_grad=True)

    def log_p(*leaves: Tensor) -> Tensor:
        cost = InfiniteCost(dist.Normal(leaves[0], leaves[1].exp()).to_event(1), leaves[2])
        seen = torch.tensor([[1.3, NAN]], dtype=torch.float64)
        event = OrderEvent(given_observed(cost, seen), torch.tensor([2.0, 0.1]).double())
        return ObservedCost(cost, 0.5, 3.0).log_prob(seen) + event.log_prob(torch.tensor(0.0))

    assert torch.autograd.gradcheck(log_p, (loc, raw, logits))


# The univariate distribution of which some values are known


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
    # A value that is known has no other, and does not depend on the parameters.
    assert d.log_prob(value + 1e-3).tolist()[::2] == [-math.inf, -math.inf]
    loc = d.base_dist.loc.detach().clone().requires_grad_()
    again = PartlyKnown(getattr(dist, family)(loc, d.base_dist.scale), KNOWN)
    for shift in (0.0, 1.0):
        (gradient,) = torch.autograd.grad(again.log_prob(value + shift).sum(), loc)
        assert gradient[::2].tolist() == [0.0, 0.0]
        assert gradient[1] > 0.0


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
    for shift in (-math.inf, -1.0, 0.0, 1.0, math.inf):
        value = KNOWN.nan_to_num().to(dtype) + shift
        below, above = tail_log_probs(d, value)
        free = tail_log_probs(base(family, dtype), value)
        sure = (0.0, -math.inf) if shift > 0 else (-math.inf, 0.0)  # c < r is strict
        assert [below[0], above[0]] == [below[2], above[2]] == list(sure)
        assert (below[1], above[1]) == (free[0][1], free[1][1])
        assert below.dtype == above.dtype == torch.float64
