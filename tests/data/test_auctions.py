"""Simulated auctions: draws follow the stated probabilities and reveal what a bidder observes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_gcm.data import Auctions, simulate_auctions
from pyro_gcm.data.auctions import KINDS

ROWS = [[0.0, 0.0, 0.0], [1.5, -1.0, 0.7], [-2.0, 2.0, -1.2]]


@pytest.fixture(scope="module")
def many() -> Auctions:
    return simulate_auctions(100_000, seed=3)


def prices(x: list[float], size: int) -> np.ndarray:
    """Prices of one impression, drawn from the documented model with numpy."""
    viewability, relevance, demand = x
    rng = np.random.default_rng(17)
    middle = 200.0 * math.exp(0.4 * math.tanh(viewability) + 0.2 * math.sin(2.0 * demand))
    spread = 0.2 + 0.1 / (1.0 + math.exp(-2.0 * relevance))
    share = 0.2 + 0.25 / (1.0 + math.exp(relevance - 3.0 * demand))
    contested = rng.random(size) < share
    return rng.lognormal(math.log(middle), spread, size) * np.where(contested, 2.2, 1.0)


def test_true_probabilities_agree_with_brute_force_draws(many: Auctions) -> None:
    bids, near = [100.0, 180.0, 300.0, 450.0, 700.0], 4 * 0.5 / 400_000**0.5
    for x in ROWS:
        drawn = prices(x, 400_000)
        wins = [(drawn < bid).mean() for bid in bids]
        np.testing.assert_allclose(many.win_curve([x], bids)[0], wins, atol=near)
        for probability in (0.1, 0.5, 0.9, 0.98):
            bid = many.winning_bid([x], probability).item()
            assert (drawn < bid).mean() == pytest.approx(probability, abs=near)
    transformed = many.win_probability(many.x, many.true_price).numpy()
    assert stats.kstest(transformed, "uniform").pvalue > 1e-4
    for column in many.x.numpy().T:
        assert abs(stats.spearmanr(transformed, column).statistic) < 4 / len(many) ** 0.5


def test_winning_bid_inverts_the_winning_probability(many: Auctions) -> None:
    x = many.x[:500]
    for probability in (0.001, 0.1, 0.5, 0.9, 0.999):
        bid = many.winning_bid(x, probability)
        wanted = torch.full_like(bid, probability)
        torch.testing.assert_close(many.win_probability(x, bid), wanted, rtol=0, atol=1e-13)
        assert (many.win_probability(x, bid * (1 - 1e-12)) < probability).all()
        assert (many.win_probability(x, bid * (1 + 1e-12)) > probability).all()
    grid = many.win_curve(x[:4], many.bid[:4])
    for bids in (many.bid[:4], many.bid[:4, 0].tolist()):  # a column or a list
        assert torch.equal(many.win_probability(x[:4].numpy(), bids), grid.diagonal())


def test_only_what_the_auction_reveals_is_observed(many: Auctions) -> None:
    won, cost, bid = many.won.bool(), many.cost[:, 0], many.bid[:, 0]
    assert torch.equal(won, many.true_price < bid)
    exact, censored, status = (torch.tensor(many.kind == kind) for kind in KINDS)
    assert (exact.int() + censored.int() + status.int() == 1).all()
    assert torch.equal(cost[exact], many.true_price[exact])
    assert won[exact].all()
    assert not won[censored].any()
    assert torch.equal(cost.isnan(), ~exact)
    seen, outcomes = many.seen_prices, many.outcomes
    for times in (seen, outcomes):
        assert (times.lower <= many.true_price).all()
        assert (many.true_price <= times.upper).all()
    assert torch.equal(seen.is_exact, exact)
    assert torch.equal(seen.lower[~won], bid[~won])
    assert torch.equal(outcomes.upper[won], bid[won])
    # The exchange is independent of the price, so wins are as frequent as elsewhere.
    assert (status.double().mean() - 0.3).abs() < 4 * 0.46 / len(many) ** 0.5
    gap = many.won[status].mean() - many.won[~status].mean()
    assert gap.abs() < 4 * 0.5 / (0.21 * len(many)) ** 0.5
    assert many.won.mean().item() == pytest.approx(0.57, abs=0.01)
    frame = many.frame()
    assert list(frame) == [*many.x_names, "bid", "won", "cost", "kind", "true_price"]
    np.testing.assert_array_equal(frame[["bid", "cost"]].T, torch.stack([bid, cost]))


def test_draws_depend_on_the_seed() -> None:
    state = torch.get_rng_state()
    one, again, other = (simulate_auctions(50, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    for name in ("x", "bid", "won", "true_price"):
        assert torch.equal(getattr(one, name), getattr(again, name))
        assert not torch.equal(getattr(one, name), getattr(other, name))


def test_invalid_arguments_are_refused() -> None:
    few = simulate_auctions(3)
    for call, message in (
        (lambda: simulate_auctions(0), "num_auctions must be an integer of at least 1, got 0"),
        (
            lambda: few.winning_bid(few.x, math.nan),
            "probability must be a number in .0, 1., got nan",
        ),
        (lambda: few.winning_bid(few.x[:, :2]), "x has 2 columns, the model was built for x_dim=3"),
        (lambda: few.win_probability(few.x, few.bid[:2]), "row counts differ: x has 3, bid has 2"),
        (lambda: few.win_curve(few.x, [100.0, -5.0]), "bids must be positive, got -5"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
