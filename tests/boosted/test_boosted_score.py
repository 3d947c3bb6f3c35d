"""Scores of boosters: out of fold, of one library as of another, and never falling in a revenue."""

import copy
import pickle
import sys

import numpy as np
import pytest
import torch
from boosters import TREES, rows, sized
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from pyro_gcm.baselines import MonotoneBoosting
from pyro_gcm.boosted import BoostedScore
from pyro_gcm.boosted.trees import RawScore

PAIRS = 20_000


def score_of(role="revenue", library="sklearn", response="binary", trees=15, **options):
    return BoostedScore(role, library, response=response, **sized(library, trees), **options)


@pytest.fixture
def seen(monkeypatch):
    """The rows that each booster was trained on, by the number in the first column of x."""
    numbers = []
    original = MonotoneBoosting.fit

    def fit(self, x, r, y):
        numbers.append(x[:, 0].long())
        return original(self, x, r, y)

    monkeypatch.setattr(MonotoneBoosting, "fit", fit)
    return numbers


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("role", ["revenue", "covariate"])
@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("library", TREES)
def test_a_training_row_is_scored_by_a_booster_that_has_not_seen_it(library, response, role, seen):
    x, r, y = rows(response=response)
    x[:, 0] = torch.arange(600)
    score = score_of(role, library, response)
    found = score.fit(x, r, y)
    assert len(seen) == len(score.boosters) == 5
    inputs = torch.cat([x, r], 1) if role == "revenue" else x
    times_unseen = torch.zeros(600)
    for numbers, booster in zip(seen, score.boosters, strict=True):
        unseen = torch.ones(600, dtype=torch.bool).index_fill(0, numbers, False)
        times_unseen += unseen
        expected = booster(inputs[unseen].numpy(), score.trees)
        np.testing.assert_array_equal(found[unseen], expected)
    assert (times_unseen == 1.0).all()


def test_parts_have_equal_sizes_and_equal_shares_of_the_outcomes(seen):
    x, r, _ = rows(203)
    x[:, 0] = torch.arange(203)
    y = torch.arange(203) % 10 == 0  # 21 rows
    score_of(folds=4, trees=2).fit(x, r, y)
    assert {len(numbers) for numbers in seen} == {152, 153}
    assert {int(y[numbers].sum()) for numbers in seen} == {15, 16}
    del seen[:]
    score_of(response="continuous", folds=4, trees=2).fit(x, r, x[:, 1])
    assert {len(numbers) for numbers in seen} == {152, 153}


@pytest.mark.parametrize("response", ["binary", "continuous"])
def test_a_new_row_gets_the_mean_of_the_boosters_raw_scores(response):
    x, r, y = rows(response=response)
    score = score_of(response=response, seed=4, select_trees=False)
    score.fit(x, r, y)
    inputs = torch.cat([x, r], 1).numpy()
    name = "decision_function" if response == "binary" else "predict"
    kinds = HistGradientBoostingClassifier, HistGradientBoostingRegressor
    made = [booster.estimator for booster in score.boosters]
    assert all(isinstance(each, kinds[response == "continuous"]) for each in made)
    assert [each.random_state for each in made] == [4, 5, 6, 7, 8]
    expected = np.mean([getattr(each, name)(inputs) for each in made], 0)
    if response == "continuous":  # the mean of five means of four parts
        expected += float(y.mean())
    np.testing.assert_allclose(score.score(x, r), expected, rtol=1e-9)


def test_a_covariate_is_a_score_of_x_alone():
    x, r, y = rows()
    score = score_of("covariate")
    found = score.fit(x, r, y)
    assert torch.equal(found, score_of("covariate").fit(x, r.flip(0) + 1.0, y))
    assert torch.equal(score.score(x), score.score(x, r))
    wide, same = score.columns(x, r)
    assert same is r
    assert torch.equal(wide, torch.cat([x, score.score(x)[:, None]], 1))
    revenue = score_of()
    found = revenue.fit(x, r, y)
    same, wide = revenue.columns(x, r, found)
    assert same is x
    assert torch.equal(wide, torch.cat([r, found[:, None]], 1))


def test_the_seed_decides_and_arrays_are_as_good_as_tensors():
    x, r, y = rows()
    first, second = score_of(seed=1), score_of(seed=1)
    assert torch.equal(first.fit(x, r, y), second.fit(x.numpy(), r.numpy(), y.numpy() > 0))
    assert torch.equal(first.score(x, r), second.score(x.numpy(), r.numpy()))
    assert not torch.equal(first.score(x, r), score_of(seed=2).fit(x, r, y))


def test_the_number_of_trees_has_the_lowest_loss_out_of_fold():
    x, r, _ = rows(150)
    y = (torch.rand(150, generator=torch.Generator().manual_seed(3)) > 0.5).double()
    # There is nothing to learn: one tree is better than 60.
    score = score_of(trees=60)
    found = score.fit(x, r, y)
    assert score.trees < 10
    every = score_of(trees=60, select_trees=False)
    assert found.var() < 0.2 * every.fit(x, r, y).var()
    assert every.trees == 60
    # With a smooth effect of 600 rows more of them are kept.
    many = score_of(trees=60)
    many.fit(*rows())
    assert many.trees > score.trees


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("library", TREES)
def test_the_score_of_all_trees_gives_the_prediction(library, response):
    x, r, y = rows(response=response)
    y = y if response == "binary" else y - y.mean()
    model = MonotoneBoosting(library, response=response, **sized(library, 20)).fit(x, r, y)
    score = RawScore(library, model.estimator)
    assert score.trees == 20
    inputs = torch.cat([x, r], 1).numpy()
    found = torch.from_numpy(score(inputs, 99))
    expected = model.predict(x, r)
    found = found.sigmoid() if response == "binary" else found
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    shifted = RawScore(library, model.estimator, 3.0)(inputs, 5)
    np.testing.assert_array_equal(shifted, score(inputs, 5) + 3.0)


@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
def test_the_score_of_fewer_trees_is_that_of_a_smaller_booster(library, response):
    x, r, y = rows(response=response)
    inputs = torch.cat([x, r], 1).numpy()
    whole, small = (
        MonotoneBoosting(library, response=response, **sized(library, trees)).fit(x, r, y)
        for trees in (20, 7)
    )
    found = RawScore(library, whole.estimator)(inputs, 7)
    np.testing.assert_allclose(found, RawScore(library, small.estimator)(inputs, 7), rtol=1e-6)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("library", TREES)
def test_scores_of_a_continuous_outcome_are_in_its_units(library):
    x, r, y = rows(response="continuous")
    score = score_of("revenue", library, "continuous", trees=60)
    for found in (score.fit(x, r, 1e4 + y), score.score(x, r)):
        assert float((found - y).mean()) == pytest.approx(1e4, abs=0.5)


def catboost_estimator(response, constraints):
    catboost = pytest.importorskip("catboost")
    kind = catboost.CatBoostClassifier if response == "binary" else catboost.CatBoostRegressor
    options = {"iterations": 60, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    return kind(monotone_constraints=constraints, random_state=0, **options)


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("library", TREES)
def test_no_raw_score_falls_when_revenues_rise_alone_or_in_a_batch(library, response):
    x, r, y = rows(response=response)
    inputs = torch.cat([x, r], 1).numpy()
    if library == "catboost":
        estimator = catboost_estimator(response, [0, 0, 0, 1, 1]).fit(inputs, y.numpy())
    else:
        model = MonotoneBoosting(library, response=response, **sized(library, 60))
        estimator = model.fit(x, r, y).estimator
    g = np.random.default_rng(1)
    x = g.normal(size=(PAIRS, 3))
    low = 1.5 * g.normal(size=(PAIRS, 2))
    # Wide steps, steps of one revenue, and steps among the values that trees split at.
    step = g.exponential(size=(PAIRS, 2)) * (g.random((PAIRS, 2)) < 0.6)
    step *= 10.0 ** -g.integers(0, 4, size=(PAIRS, 1))
    low[::2] = r.numpy()[g.integers(0, len(r), PAIRS // 2)]
    below, above = (np.hstack([x, revenue]) for revenue in (low, low + step))
    score = RawScore(library, estimator, 0.1)
    at_low = score(below, 60)
    at_high = np.concatenate([score(part, 60) for part in np.split(above, 8)])
    assert (at_high >= at_low).all()
    assert (at_high > at_low).mean() > 0.2
    some = slice(0, 150)
    alone = [score(row[None], 60)[0] for row in below[some]]
    np.testing.assert_array_equal(alone, at_low[some])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_scores_the_same(copied):
    x, r, y = rows()
    score = score_of("revenue", "lightgbm")
    score.fit(x, r, y)
    assert torch.equal(copied(score).score(x, r), score.score(x, r))


def test_options_and_rows_are_checked():
    x, r, y = rows(60)
    score, numbers = score_of(trees=2), score_of(response="continuous")
    fitted = score_of(trees=2)
    found = fitted.fit(x, r, y)
    for ask in (score.score, score.columns):
        with pytest.raises(RuntimeError, match="call fit first"):
            ask(x, r)
    for call, message in (
        (lambda: score_of(monotonic_cst=[1]), "monotonic_cst must be left out"),
        (lambda: score.fit(x, r, 2 * y), r"y must hold 0 and 1 .*, got \[0\.0, 2\.0\]"),
        (lambda: score.fit(x, r, torch.arange(60) < 3), "folds=5 rows of either outcome, got 3"),
        (lambda: numbers.fit(x[:4], r[:4], y[:4]), "at least folds=5 rows, got 4"),
        (lambda: score.fit(x[:, :0], r, y), r"x must have shape \[rows, columns\] with at least"),
        (lambda: fitted.score(x[:, :2], r), "x has 2 columns, the model was built for x_dim=3"),
        (lambda: fitted.columns(x, r, found[:-1]), "row counts differ: r has 60, scores has 59"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"pip install pyro-gcm\[boosting\]"):
        BoostedScore()
