"""Simulated auctions: draws follow the stated probabilities and reveal what a bidder observes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_gcm import data
from pyro_gcm.data import Auctions, simulate_auctions

ROWS = [[0.0, 0.0, 0.0], [1.5, -1.0, 0.7], [-2.0, 2.0, -1.2]]


@pytest.fixture(scope="module")
def many() -> Auctions:
    return simulate_auctions(100_000, seed=3)


def prices(x: list[float], size: int) -> Any:
    """Prices of one impression, drawn from the documented model with numpy."""
    viewability, relevance, demand = x
    rng = np.random.default_rng(17)
    middle = 200.0 * math.exp(0.4 * math.tanh(viewability) + 0.2 * math.sin(2.0 * demand))
    spread = 0.2 + 0.1 / (1.0 + math.exp(-2.0 * relevance))
    share = 0.2 + 0.25 / (1.0 + math.exp(relevance - 3.0 * demand))
    contested = rng.random(size) < share
    return rng.lognormal(math.log(middle), spread, size) * np.where(contested, 2.2, 1.0)


@pytest.mark.parametrize("x", ROWS)
def test_true_probabilities_agree_with_brute_force_draws(x: list[float]) -> None:
    auctions, drawn = simulate_auctions(1), prices(x, 400_000)
    bids = [100.0, 180.0, 300.0, 450.0, 700.0]
    wins = [(drawn < bid).mean() for bid in bids]
    np.testing.assert_allclose(auctions.win_curve([x], bids)[0], wins, atol=4 * 0.5 / 400_000**0.5)
    for probability in (0.1, 0.5, 0.9, 0.98):
        bid = auctions.winning_bid([x], probability).item()
        assert (drawn < bid).mean() == pytest.approx(probability, abs=4 * 0.5 / 400_000**0.5)


def test_simulated_prices_follow_their_conditional_distribution(many: Auctions) -> None:
    transformed = many.win_probability(many.x, many.true_price).numpy()
    assert stats.kstest(transformed, "uniform").pvalue > 0.01
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
    assert (grid.shape, grid.dtype) == ((4, 4), torch.float64)
    for bids in (many.bid[:4], many.bid[:4, 0].tolist()):  # a column or a list
        assert torch.equal(many.win_probability(x[:4].numpy(), bids), grid.diagonal())


def test_only_what_the_auction_reveals_is_observed(many: Auctions) -> None:
    won, cost, bid = many.won.bool(), many.cost[:, 0], many.bid[:, 0]
    assert torch.equal(won, many.true_price < bid)
    exact, censored, status = (torch.tensor(many.kind == kind) for kind in data.auctions.KINDS)
    assert (exact.int() + censored.int() + status.int() == 1).all()
    assert won[exact].all()
    assert torch.equal(cost[exact], many.true_price[exact])
    assert not won[censored].any()
    assert (many.true_price >= bid)[censored].all()
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


def test_shapes_names_units_and_shares_are_as_documented(many: Auctions) -> None:
    assert len(many) == 100_000
    assert many.x.shape == (100_000, 3)
    assert many.bid.shape == many.cost.shape == (100_000, 1)
    assert many.won.shape == many.true_price.shape == many.kind.shape == (100_000,)
    assert many.x_names == ("viewability", "relevance", "demand")
    floats = (many.x, many.bid, many.won, many.cost, many.true_price)
    assert all(values.dtype == torch.float64 for values in floats)
    assert many.x.mean(0).abs().max() < 0.02
    assert (many.x.std(0) - 1).abs().max() < 0.02
    guess = 200 * torch.exp(0.3 * many.x[:, 0].tanh())
    factor = many.bid[:, 0] / guess
    assert stats.kstest(factor.log(), stats.uniform(math.log(0.5), math.log(9)).cdf).pvalue > 0.01
    assert many.won.mean().item() == pytest.approx(0.57, abs=0.01)
    above = many.bid[:, 0] > many.winning_bid(many.x, 0.9)
    assert above.double().mean().item() == pytest.approx(0.28, abs=0.01)
    frame = many.frame()
    assert list(frame) == [*many.x_names, "bid", "won", "cost", "kind", "true_price"]
    assert list(frame["kind"].cat.categories) == ["exact", "censored", "current status"]
    assert (frame["kind"] == many.kind).all()
    x, bid, won, cost, price = (values.numpy() for values in floats)
    columns = [*x.T, bid[:, 0], won, cost[:, 0], price]
    np.testing.assert_array_equal(frame.drop(columns="kind").to_numpy(float).T, columns)


def test_a_normal_price_given_x_is_misspecified(many: Auctions) -> None:
    for x in ROWS:
        drawn = np.log(prices(x, 200_000))
        assert stats.skew(np.exp(drawn)) > 0.6
        assert 0.35 < drawn.std() < 0.5  # moderate noise
    wins = {0.5: [], 0.9: []}
    for x in many.x[:200].tolist():
        drawn = prices(x, 5_000)
        for probability, found in wins.items():
            bid = drawn.mean() + drawn.std() * stats.norm.ppf(probability)
            found.append(many.win_probability([x], [bid]).item())
    assert np.mean(wins[0.9]) == pytest.approx(0.87, abs=0.01)
    assert np.mean(wins[0.5]) == pytest.approx(0.63, abs=0.01)


def test_draws_depend_on_the_seed_and_what_is_revealed_on_the_share_of_current_status() -> None:
    state = torch.get_rng_state()
    one, same, other = (simulate_auctions(50, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    for name in ("x", "bid", "won", "true_price"):
        assert torch.equal(getattr(one, name), getattr(same, name))
        assert not torch.equal(getattr(one, name), getattr(other, name))
    assert (one.kind == same.kind).all()
    assert torch.equal(one.cost.nan_to_num(), same.cost.nan_to_num())
    for share in (0.0, 1.0):  # changes only what is revealed
        changed = simulate_auctions(50, seed=1, current_status_share=share)
        for name in ("x", "bid", "won", "true_price"):
            assert torch.equal(getattr(one, name), getattr(changed, name))
        assert ((changed.kind == "current status") == bool(share)).all()
        revealed = torch.zeros(50) if share else changed.won
        assert torch.equal((~changed.cost[:, 0].isnan()).double(), revealed.double())


def test_columns_after_the_third_have_no_effect_and_absent_ones_count_as_zero() -> None:
    wide, narrow = simulate_auctions(10, x_dim=5), simulate_auctions(10, x_dim=1)
    assert wide.x_names == ("viewability", "relevance", "demand", "other_1", "other_2")
    assert narrow.x_names == ("viewability",)
    assert wide.x_dim == 5
    full = simulate_auctions(1)
    assert torch.equal(wide.winning_bid(wide.x), full.winning_bid(wide.x[:, :3]))
    filled = torch.nn.functional.pad(narrow.x, (0, 2))
    assert torch.equal(narrow.winning_bid(narrow.x), full.winning_bid(filled))


UNIT = r"current_status_share must be a finite number in \[0, 1\], got"
INSIDE = "probability must lie strictly between 0 and 1, got"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: simulate_auctions(current_status_share=1.5), f"{UNIT} 1.5"),
        *((lambda a, p=p: a.winning_bid(a.x, p), INSIDE) for p in (0.0, 1.0, math.nan)),
        (lambda a: a.winning_bid(a.x[:, :2]), "x has 2 columns, the model was built for x_dim=3"),
        (lambda a: a.win_probability(a.x, a.bid[:2]), "row counts differ: x has 3, bid has 2"),
        (lambda a: a.win_curve(a.x, [100.0, -5.0]), "bids must be positive, got -5"),
    ],
)
def test_invalid_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(simulate_auctions(3))
