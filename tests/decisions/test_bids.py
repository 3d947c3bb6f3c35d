"""The best bid is that of a fine grid within the gap that is proven, whatever predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm import GCM, IGCM, MemberGCM
from pyro_gcm.decisions import first_price, posted_price, second_price
from pyro_gcm.decisions.search import best_margin
from pyro_gcm.estimators import GCMClassifier

pytestmark = pytest.mark.filterwarnings("ignore:.*has not been fitted")
#: For sums and products of float64 that are rounded in another order.
ROUNDING = 1e-12


def random_model(seed: int, **given: Any) -> Any:
    """A model with one bid and another revenue, whose weights are far from those of the start."""
    kinds: list[Any] = [
        lambda: GCM(2, 2, num_samples=16, seed=seed, **given),
        lambda: GCM(2, 2, alternatives=3, costs=3, num_samples=16, seed=seed, **given),
        lambda: GCM(
            2, 2, prior="categorical", z_dim=3, alternatives=2, costs=1, seed=seed, **given
        ),
        lambda: MemberGCM(2, 2, members=3, hidden=8, seed=seed, **given),
    ]
    model = kinds[seed % len(kinds)]()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=generator)
    return model


def grid_of(low: Any, high: Any, points: int = 1001) -> torch.Tensor:
    return torch.linspace(float(low), float(high), points, dtype=torch.float64)


def test_no_bid_of_a_fine_grid_gains_more_than_the_proven_gap() -> None:
    rng, peaks = np.random.default_rng(0), 0
    for seed in range(60):
        model, x = random_model(seed), torch.tensor(rng.normal(size=(2, 2)))
        value, other = float(rng.uniform(0.5, 6.0)), float(rng.normal())
        best = first_price(model, x, value, low=-1.0, r=[other], tolerance=1e-3)
        bids = grid_of(-1.0, value)
        p = model.surface(x, torch.stack([bids, torch.full_like(bids, other)], 1)).double()
        profit = ((value - bids) * p).numpy()
        peaks += int(((np.diff(profit)[:, :-1] > 1e-6) & (np.diff(profit)[:, 1:] < -1e-6)).sum())
        assert (profit.max(1) <= (best["profit"] + best["gap"]) * (1.0 + ROUNDING)).all(), seed
        assert (best["gap"] <= 1e-3 * best["profit"]).all(), seed
        assert (best["profit"] == (value - best["bid"]) * best["probability"]).all(), seed
        r = torch.tensor(best["bid"].to_numpy())[:, None]
        at_bid = model.predict(x, torch.cat([r, torch.full_like(r, other)], 1))
        assert at_bid.double().numpy() == pytest.approx(best["probability"].to_numpy(), abs=1e-6)
    assert peaks > 70  # of 120 rows: the best bid is seldom an end


def test_all_peaks_of_steps_are_found() -> None:
    """A probability with many steps has a peak before each, and the proof finds the highest."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        edges = torch.tensor(np.sort(rng.uniform(0.0, 1.0, 12)))
        heights = torch.tensor(np.sort(rng.uniform(0.0, 1.0, 13)))

        def steps(at: torch.Tensor, edges: Any = edges, heights: Any = heights) -> torch.Tensor:
            return heights[torch.searchsorted(edges, at.contiguous(), right=True)]

        ends = torch.tensor([[1.0, 0.0, 1.0]]).double()  # value, lowest and highest bid
        bid, p, profit, gap = best_margin(steps, ends, tolerance=1e-6)[0].tolist()
        starts = torch.cat([torch.zeros(1), edges])
        truth = ((1.0 - starts) * heights).max().item()
        assert profit == (1.0 - bid) * p
        assert profit <= truth * (1.0 + ROUNDING)
        assert truth <= (profit + gap) * (1.0 + ROUNDING)
        assert gap <= 1e-6 * profit


def test_a_row_has_the_same_bid_alone_and_beside_others() -> None:
    x, value = torch.randn(300, 2), torch.rand(300) * 5.0
    for seed in (0, 1, 3):
        model = random_model(seed)
        together = first_price(model, x, value, r=[0.0])
        for row in (0, 150, 299):
            alone = first_price(model, x[[row]], value[[row]], r=[0.0])
            assert (alone.to_numpy() == together.iloc[[row]].to_numpy()).all()


def test_the_time_of_a_survival_model_is_the_price_to_beat() -> None:
    model, x = GCM(2, 0, response="survival", alternatives=2, costs=1), torch.randn(3, 2)
    price = model.predictive(x, torch.zeros(3, 0))
    bids = grid_of(0.0, 2.0)
    profit = ((2.0 - bids) * (1.0 - price.survival(bids))).numpy()
    best = first_price(model, x, 2.0)
    at_bid = 1.0 - price.survival(best["bid"].to_numpy()).diagonal().numpy()
    assert at_bid == pytest.approx(best["probability"].to_numpy(), abs=1e-6)
    assert (profit.max(1) <= best["profit"] + best["gap"] + 1e-6).all()
    # In a second-price auction the gain is the mean of what the price leaves of the value.
    second = second_price(model, x, 2.0)
    left = (2.0 - price.sample(20_000).double()).clamp(min=0.0).numpy()
    error = 5.0 * left.std(0) / len(left) ** 0.5 + second["gap"] + 5e-3  # of draws of z
    assert (abs(left.mean(0) - second["profit"]) < error).all()
    assert (second["bid"] == 2.0).all()
    assert (second["profit"] >= best["profit"] - second["gap"]).all()  # where the winner pays less


def test_the_area_below_the_curve_is_within_its_error() -> None:
    for seed in range(8):
        model, x = random_model(seed), torch.randn(2, 2)
        second = second_price(model, x, 3.0, low=-1.0, r=[0.5])
        bids = grid_of(-1.0, 3.0, 20_001)
        p = model.surface(x, torch.stack([bids, torch.full_like(bids, 0.5)], 1)).double()
        area = torch.trapezoid(p, bids)
        fine = (p[:, -1] - p[:, 0]) * (bids[1] - bids[0])  # the error of this sum
        error = abs(second["profit"] - area.numpy())
        assert (error <= second["gap"] + fine.numpy() + 1e-9).all()
        assert (second["gap"] <= 0.5 * 4.0 / 256.0 + ROUNDING).all()


def test_a_posted_price_is_a_bid_reflected() -> None:
    for seed in range(12):
        model, x = random_model(seed), torch.randn(2, 2)
        best = posted_price(model, x, 0.5, high=4.0, r=[0.0])
        prices = grid_of(0.5, 4.0)
        p = model.surface(x, torch.stack([-prices, torch.zeros_like(prices)], 1)).double()
        profit = ((prices - 0.5) * p).numpy()
        assert (profit.max(1) <= (best["profit"] + best["gap"]) * (1.0 + ROUNDING)).all()
        assert ((best["price"] >= 0.5) & (best["price"] <= 4.0)).all()
        assert np.allclose((best["price"] - 0.5) * best["probability"], best["profit"])


def test_bids_may_be_read_in_another_unit() -> None:
    model, x = random_model(5), torch.randn(4, 2)
    best = first_price(model, x, 3.0, low=0.1, r=[0.0], column=np.log)
    bids = grid_of(0.1, 3.0)
    p = model.surface(x, torch.stack([bids.log(), torch.zeros_like(bids)], 1)).double()
    assert (((3.0 - bids) * p).numpy().max(1) <= best["profit"] + best["gap"] + ROUNDING).all()


@pytest.fixture(scope="module")
def sold() -> tuple[GCMClassifier, pd.DataFrame]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=400), "price": rng.uniform(1.0, 5.0, 400)})
    y = rng.logistic(size=400) + X["size"] + 3.0 > X["price"]
    options: Any = {"members": 2, "hidden": 8, "epochs": 10, "random_state": 0}
    return GCMClassifier(monotonic_cst={"price": -1}, **options).fit(X, y), X[:5]


def test_estimators_have_prices_and_bands(sold: tuple[GCMClassifier, pd.DataFrame]) -> None:
    shop, X = sold
    best = posted_price(shop, X, 1.0, high=5.0, revenue="price", level=0.9)
    assert (best.index == X.index).all()
    prices = np.linspace(1.0, 5.0, 201)
    table = X.loc[X.index.repeat(len(prices))].assign(price=np.tile(prices, len(X)))
    bands = shop.predict_bands(table)
    ends = {"": shop.predict_proba(table)[:, 1], "_lower": bands.lower, "_upper": bands.upper}
    for end, p in ends.items():
        profit = (prices - 1.0) * p.reshape(len(X), -1)
        assert (profit.max(1) <= best["profit" + end] + best["gap" + end] + ROUNDING).all(), end
        assert (best["gap" + end] <= 1e-3 * best["profit" + end]).all(), end
    assert (best["profit_lower"] < best["profit"]).all()
    assert (best["profit"] < best["profit_upper"]).all()

    def predict(table: pd.DataFrame) -> Any:
        return shop.predict_proba(table)[:, 1]

    again = posted_price(predict, X, 1.0, high=5.0, revenue="price")
    pd.testing.assert_frame_equal(again, best[list(again)])


def test_where_no_bid_pays_there_is_none() -> None:
    x = torch.zeros(3, 2)
    for ask in (first_price, second_price):
        found = ask(random_model(0), x, [2.0, 0.5, 1.0], low=1.0, r=[0.0])
        assert found["bid"].isna().tolist() == [False, True, False]
        assert found["profit"].tolist()[1:] == [0.0, 0.0]
    capped = first_price(random_model(0), x, 3.0, high=1.2, low=1.0, r=[0.0])
    assert capped["bid"].between(1.0, 1.2).all()


def test_what_cannot_be_decided_is_refused(sold: tuple[GCMClassifier, pd.DataFrame]) -> None:
    x, model, (shop, X) = torch.zeros(3, 2), random_model(0), sold
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda: first_price(IGCM(2, 2), x, 1.0), TypeError, "predictor must be a strict model"),
        (lambda: first_price("a", x, 1.0), TypeError, "predictor must be a strict model.*str"),
        (lambda: first_price(model, x, [1.0, 2.0]), ValueError, r"value must be .*\[3\]"),
        (lambda: first_price(model, x, float("nan")), ValueError, "value must be a finite"),
        (lambda: first_price(model, x, 1.0, tolerance=0.0), ValueError, "tolerance must be"),
        (lambda: first_price(model, x, 1.0, level=0.9), ValueError, "level must be None"),
        (lambda: first_price(model, x, 1.0, column=np.log), ValueError, "column must be finite"),
        (lambda: first_price(model, x[:, :1], 1.0), ValueError, "x has 1 columns"),
        (
            lambda: first_price(shop, X, 2.0, revenue="bid"),
            ValueError,
            "revenue must be a column of x",
        ),
        (lambda: first_price(shop, X, 2.0, revenue="price"), ValueError, "predictions of at least"),
        (lambda: posted_price(shop, X, 1.0, high=np.inf, revenue="price"), ValueError, "high must"),
    ]
    for ask, kind, message in wrong:
        with np.errstate(divide="ignore"), pytest.raises(kind, match=message):
            ask()
