"""The credit study: splits, invented rows, methods, prices and the table of violations."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from toys import options, table

from reproduce.checks import credit_falls
from reproduce.data import credit_tables
from reproduce.data.credit_tables import CreditTable, invented, split, with_gaps, with_unseen_levels
from reproduce.defaults import credit
from reproduce.methods.credit import METHODS, Rows, lacking
from reproduce.rendering.credit_figure import largest_falls
from reproduce.rendering.credit_prices import significant_prices
from reproduce.runs import Fit, as_json, read_results

DIRECTIONS = {"debt": 1, "income": -1}
#: Methods whose fits take seconds are left out.
QUICK = [m for m in METHODS if m not in ("CatBoost", "EBM", "GCM", "GCMClassifier")]


def applicants() -> tuple[pd.DataFrame, pd.Series]:
    """1,000 applicants; the risk falls with age, which has no direction."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "debt": rng.uniform(0, 50, 1_000).round(1),
            "age": rng.integers(18, 90, 1_000).astype(float),
            "income": np.where(rng.random(1_000) < 0.2, np.nan, rng.uniform(10, 90, 1_000)),
            "town": pd.Categorical(rng.choice(["north", "south"], 1_000)),
        }
    )
    score = 0.08 * X["debt"] - 0.04 * X["income"].fillna(50.0) - 0.02 * X["age"] + 1.0
    return X, (score + rng.logistic(size=1_000) > 0).astype(int)


@pytest.fixture
def toy(monkeypatch):
    """The table of applicants in place of HELOC, and fewer resamples."""
    monkeypatch.setattr(credit, "RESAMPLES", 300)
    entry = CreditTable("Applicants", applicants, DIRECTIONS)
    monkeypatch.setitem(credit_tables.TABLES, "heloc", entry)
    credit_tables.load.cache_clear()
    yield split("heloc", 0)
    credit_tables.load.cache_clear()


# Rows.


def test_a_split_has_every_row_once_and_at_most_as_many_as_asked(toy):
    both = pd.concat([toy.X, toy.X_test])
    assert sorted(both["debt"]) == sorted(applicants()[0]["debt"])
    assert (len(toy.X), len(toy.y_test)) == (800, 200)
    few = split("heloc", 1, 100)
    assert (len(few.X), len(few.y_test)) == (80, 20)


def test_invented_rows_are_of_no_applicant_and_gaps_are_in_directed_columns(toy):
    made = invented(toy.X, 300, seed=0)
    known = {tuple(row) for row in toy.X[["debt", "age", "income"]].dropna().to_numpy()}
    assert not known & {tuple(row) for row in made[["debt", "age", "income"]].to_numpy()}
    gaps = with_gaps(toy.X_test, DIRECTIONS, seed=0)
    assert 0.1 < gaps["debt"].isna().mean() < 0.3
    assert gaps["age"].notna().all()
    assert set(with_unseen_levels(toy.X_test)["town"]) == {"never seen"}


# Methods.


@pytest.mark.filterwarnings("ignore")  # of solvers
@pytest.mark.parametrize("method", QUICK)
def test_a_rival_learns_with_directions_and_without(method, toy):
    if lacking(method):
        pytest.skip(f"{method} is not installed")
    for directions in (DIRECTIONS, {})[: 1 + METHODS[method].free]:
        predict = METHODS[method].fit(Rows(toy.X, toy.y, directions, 0))
        probability = predict(toy.X_test)
        assert ((probability >= 0.0) & (probability <= 1.0)).all()
        assert roc_auc_score(toy.y_test, probability) > 0.65


def test_a_method_whose_package_lacks_is_skipped_with_the_reason(
    toy, monkeypatch, capsys, tmp_path
):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    asked = options(credit.STUDY, tmp_path, "--jobs", "1", "--quick", "--datasets", "heloc",
                    "--methods", "LightGBM", "Logistic regression")  # fmt: skip
    credit.STUDY.main(asked)
    assert "LightGBM is skipped: " in capsys.readouterr().out
    assert set(read_results(tmp_path / "credit_heloc.csv")["method"]) == {"Logistic regression"}


def test_the_interval_of_a_price_is_that_of_resampled_rows(toy):
    rng = np.random.default_rng(0)
    with_, free = rng.uniform(0.1, 0.9, (2, 200))
    found = credit.price_bounds(toy.y_test, with_, free, seed=3)
    loss = (with_ - toy.y_test) ** 2 - (free - toy.y_test) ** 2
    half = 1.96 * loss.std() / 200**0.5
    ends = [found[f"Brier score, price {end}"] for end in ("from", "to")]
    assert ends == pytest.approx([loss.mean() - half, loss.mean() + half], abs=0.35 * half)
    auc = roc_auc_score(toy.y_test, free) - roc_auc_score(toy.y_test, with_)
    assert found["AUC, price from"] < auc < found["AUC, price to"]
    same = credit.price_bounds(toy.y_test, free, free, seed=3)
    assert not any(same.values())


def test_prices_that_are_not_0_are_named():
    """The committed results, of which all other sentences are tested, have none."""
    of = {"dataset": "heloc", "settings": "{}"}
    modes = {"constrained": [0.60, 0.61], "free": [0.62, 0.63]}
    both = [table({("LightGBM", "AUC"): auc}, variant=mode, **of) for mode, auc in modes.items()]
    assert significant_prices(pd.concat(both)) == "LightGBM (HELOC, +2.00 points)"


# The board.


def test_the_board_finds_falls_of_a_model_that_falls_and_none_of_one_that_does_not(toy):
    quick = as_json({"dtype": "float32", "pairs": 300, "searches": ["random", "grid"]})
    fit = Fit("credit_falls", "heloc", "constrained", "invented", "0", 0, "any", quick)

    def rising(X):
        assert X["debt"].dtype == np.float32
        return 1.0 / (1.0 + np.exp(-0.1 * X["debt"].to_numpy()))

    X = toy.X_test.drop(columns="income")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(credit_tables.TABLES, "heloc", CreditTable("", applicants, {"debt": 1}))
        assert credit_falls.searched(rising, X, fit).violations == 0
        found = credit_falls.searched(lambda X: 1.0 - rising(X), X, fit)
    assert found.violations > 100
    drops = {("LightGBM", "largest drop"): [0.1, found.largest_drop]}
    rows = table(drops, dataset="heloc", variant="constrained", protocol="invented")
    assert largest_falls(rows)["LightGBM"] == 100 * max(0.1, found.largest_drop)


def test_two_rows_are_made_simple_and_still_fall():
    pair = pd.DataFrame({"debt": [20.3, 20.9], "age": [40.2, 40.2], "arrears": [1.2, 3.1]})

    def predict(X):
        return np.where(X["arrears"].to_numpy() > 2.0, 0.2, 0.6) + 0.001 * X["debt"].to_numpy()

    found = credit_falls.simple(pair, ["debt", "arrears"], predict)
    assert found["debt"].tolist() == [20.0, 20.0]
    assert found["arrears"].tolist() == [1.0, 3.0]
    assert found["age"].tolist() == [40.2, 40.2]
