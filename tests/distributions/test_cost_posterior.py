"""The cost posterior: exact density, exact draws, and every draw agrees with the outcome."""

from __future__ import annotations

import math

import pytest
import torch
from order_event_cases import (
    DIFFERENT,
    LOGITS,
    SHAPES,
    agreement,
    dtypes,
    fair_event,
    finite,
    independent,
    outcomes,
    random_parameters,
)
from scipy import stats
from torch import Tensor

from pyro_gcm.distributions import GuessedEvent, InfiniteCost, OrderEvent
from pyro_gcm.distributions.families import tail_log_probs

#: What either sampler draws for a comparison.
DRAWS = 4_000


def by_rejection(event: OrderEvent, outcome: float, count: int) -> Tensor:
    """Draws of p(c | y) for an event without batch: those of p(c) that agree."""
    draws = event.cost.sample((20 * count,))
    draws = draws[event.given_cost(draws).mean == outcome]
    assert len(draws) >= count
    return draws[:count]


#: Every shape with one family, and every family with some.
CASES = [("Normal", shape, infinite) for shape in SHAPES for infinite in (False, True)]
CASES += [("Logistic", shape, infinite) for shape in [(4,), (2, 2)] for infinite in (False, True)]
CASES += [(family, shape, False) for family in ("Laplace", "Gumbel") for shape in [(2,), (2, 2)]]
cases = pytest.mark.parametrize(("family", "shape", "infinite"), CASES, ids=str)


@pytest.mark.parametrize(
    ("family", "shape", "infinite"), [c for c in CASES if c[1] in [(1,), (4,), (2, 2), (4, 1)]]
)
@outcomes
def test_draws_agree_with_rejection_sampling(
    shape: tuple[int, ...], infinite: bool, outcome: float, family: str, gumbel: type
) -> None:
    event = fair_event(shape, family, infinite=infinite)
    draws = event.cost_posterior(torch.tensor(outcome)).sample((DRAWS,))
    kept, r = by_rejection(event, outcome, DRAWS), event.revenue
    assert agreement(finite(draws - r), finite(kept - r)) > DIFFERENT
    shares = [c.isposinf().all(-1).double().mean(0) for c in (draws, kept)]
    assert ((shares[0] - shares[1]).abs() < 5.0 * math.sqrt(0.5 / DRAWS)).all()
    for one, other in zip(draws.flatten(1).T, kept.flatten(1).T, strict=True):
        one, other = (c[c.isfinite()].unsqueeze(-1) for c in (one, other))
        if infinite and min(len(one), len(other)) > 100:
            assert agreement(one, other) > DIFFERENT


#: With `--long all` 200,000 draws of each case and outcome.
@pytest.mark.parametrize("draws", [10, pytest.param(1000, marks=pytest.mark.long(keep=0))])
@dtypes
@cases
def test_every_draw_agrees_with_its_outcome(
    shape: tuple[int, ...],
    infinite: bool,
    family: str,
    dtype: torch.dtype,
    draws: int,
    gumbel: type,
) -> None:
    """Draws of 200 events in all tails, each against both outcomes."""
    rows = 200
    loc, scale = random_parameters(torch.Size((rows, *shape)), dtype)
    u = torch.linspace(-30.0, 30.0, rows, dtype=dtype).reshape(-1, *(1,) * len(shape))
    revenue = loc + scale * (u + torch.randn(rows, *shape, dtype=dtype)).clamp(-30.0, 30.0)
    if family == "Gumbel":  # whose lower tail is far shorter
        revenue = torch.maximum(revenue, loc - 5.0 * scale)
    cost = independent(family, loc, scale, len(shape))
    if infinite:
        revenue[::7] = math.inf
        # Where no cost is infinite, an infinite revenue has but one outcome.
        logits = torch.tensor(LOGITS[1:], dtype=dtype)[torch.randint(7, (rows, *shape[:-1]))]
        cost = InfiniteCost(cost, logits)
    event = OrderEvent(cost, revenue)
    for outcome in (torch.arange(rows) % 2, (torch.arange(rows) + 1) % 2):
        c = event.cost_posterior(outcome.to(dtype)).sample((draws,))
        assert c.dtype == dtype
        assert not c.isnan().any()
        assert (event.given_cost(c).mean == outcome).all()
        gone = c.isinf()
        assert infinite or not gone.any()
        assert (gone.all(-1) == gone.any(-1)).all()
        assert (c[gone] > 0).all()


@dtypes
@outcomes
def test_draw_at_the_very_edge_stays_on_its_side(
    outcome: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = fair_event((1,), batch_shape=(2000,), dtype=dtype)
    nearly_one = 1.0 - 2.0**-53

    def rand(*shape: object, **options: object) -> Tensor:
        return torch.full(*shape, nearly_one, **options)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "rand", rand)
        c = event.cost_posterior(torch.tensor(outcome)).sample()
    torch.testing.assert_close(c, event.revenue)
    assert (event.given_cost(c).mean == outcome).all()


@pytest.mark.parametrize(
    ("family", "u"),
    [("Normal", u) for u in (-40.0, -30.0, -8.0, 8.0, 30.0, 40.0)]
    + [(family, u) for family in ("Logistic", "Laplace") for u in (-700.0, -40.0, 40.0, 700.0)],
)
@outcomes
def test_draws_in_a_far_tail_have_its_shape(family: str, u: float, outcome: float) -> None:
    loc, scale = torch.tensor([2.0], dtype=torch.float64), torch.tensor([0.5], dtype=torch.float64)
    event = OrderEvent(independent(family, loc, scale), loc + scale * u)
    c = event.cost_posterior(torch.tensor(outcome)).sample((20_000,))
    side = 0 if outcome else 1  # the tail below the revenue, or that above it
    at_draw, at_revenue = (tail_log_probs(event.cost, v)[side] for v in (c, event.revenue))
    share = (at_draw - at_revenue).exp().squeeze(-1)
    assert stats.kstest(share.numpy(), "uniform").pvalue > DIFFERENT


@outcomes
def test_costs_given_an_event_or_a_guess_follow_bayes_rule(outcome: float) -> None:
    event = fair_event((2, 2), dtype=torch.float64)
    guessed = GuessedEvent(event, torch.tensor(-0.4, dtype=torch.float64))
    y, c = torch.tensor(outcome), event.cost.sample((50,))
    bayes = event.cost.log_prob(c) + guessed.given_cost(c).log_prob(y) - guessed.log_prob(y)
    torch.testing.assert_close(guessed.cost_posterior(y).log_prob(c), bayes)
