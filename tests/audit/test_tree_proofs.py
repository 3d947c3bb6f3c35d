"""Proofs for boosted trees of every library: against all rows that there are, and refusals."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from pyro_gcm.audit import audit_table
from pyro_gcm.audit.proof import prove
from pyro_gcm.audit.result import VERDICTS, TreeProof
from pyro_gcm.audit.rows import MovedRows
from pyro_gcm.audit.table import _prediction
from pyro_gcm.audit.trees import Unreadable, read_forest

FOR_ALL, OF_PATTERNS, SINGLE, FALLS, NONE = VERDICTS
DIRECTIONS = {"a": 1, "b": -1}
NEVER = 1e9  # a value on the far side of every split, but those at the largest floats


def proof_of(model: Any, X: Any, directions: Any = DIRECTIONS, **options: Any) -> TreeProof:
    table = MovedRows(X, model, directions)
    forest = read_forest(model, [*table.frame.columns])
    assert forest is not None
    return prove(forest, _prediction(model), table, progress=False, **options)


def table(rng: np.random.Generator, gaps: bool, categories: bool, n: int = 150) -> pd.DataFrame:
    """Whole numbers, of which every combination can be looked at."""
    X = pd.DataFrame({name: rng.integers(-1, 3, n).astype(float) for name in ("a", "b", "f")})
    if gaps:
        X = X.mask(np.column_stack([rng.random((n, 2)) < 0.15, np.zeros(n, dtype=bool)]))
    return X.assign(k=rng.choice(["x", "y", "z"], n)) if categories else X


def outcome(rng: np.random.Generator, X: pd.DataFrame) -> Any:
    score = 0.5 * X["a"].fillna(0) - 0.5 * X["b"].fillna(0)
    score += 3.0 * rng.random() * X["f"] * rng.normal(size=len(X))
    if "k" in X:
        score += (X["k"] == "x") * X["b"].fillna(1)
    return (score > score.median()).astype(int)


def ensemble(library: str, rng: np.random.Generator, X: pd.DataFrame, constrained: bool) -> Any:
    """A small model of random size; and the table as it takes it."""
    count, depth = int(rng.integers(1, 10)), int(rng.integers(1, 4))
    signs = [DIRECTIONS.get(name, 0) for name in X] if constrained else None
    onehot, y = int(rng.integers(1, 5)), outcome(rng, X)
    if library == "CatBoost":
        catboost = pytest.importorskip("catboost")
        model = catboost.CatBoostClassifier(
            iterations=count,
            depth=depth,
            cat_features=["k"] if "k" in X else None,
            one_hot_max_size=onehot,
            monotone_constraints=signs,
            grow_policy="SymmetricTree" if constrained else "Depthwise",
            allow_writing_files=False,
            thread_count=1,
            verbose=0,
        )
        return model.fit(X, y), X
    if "k" in X:
        X = X.astype({"k": "category"})
    if library == "LightGBM":
        model = pytest.importorskip("lightgbm").LGBMClassifier(
            boosting_type="gbdt" if onehot < 3 else "dart",
            n_estimators=count,
            num_leaves=2**depth,
            monotone_constraints=signs,
            max_cat_to_onehot=onehot,
            **{"min_child_samples": 3, "min_data_per_group": 1, "n_jobs": 1, "verbose": -1},
        )
    elif library == "XGBoost":
        model = pytest.importorskip("xgboost").XGBClassifier(
            booster="gbtree" if onehot < 3 else "dart",
            n_estimators=count,
            max_depth=depth,
            monotone_constraints=signs and tuple(signs),
            max_cat_to_onehot=onehot,
            **{"enable_categorical": True, "min_child_weight": 0.1, "n_jobs": 1},
        )
    else:
        model = HistGradientBoostingClassifier(
            max_iter=count,
            max_leaf_nodes=2**depth,
            min_samples_leaf=3,
            categorical_features="from_dtype",
            monotonic_cst=signs,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y), X


def largest_fall(model: Any, X: pd.DataFrame) -> float:
    """The largest fall between neighbours of the grid of all rows, by its predictions alone."""
    levels = []
    for name in X:
        of = sorted(X[name].dropna().unique())
        of = [-NEVER, *of, NEVER] if name != "k" else of
        levels.append([*of, np.nan] if X[name].isna().any() else of)
    rows = pd.DataFrame([*itertools.product(*levels)], columns=X.columns).astype(dict(X.dtypes))
    p = model.predict_proba(rows)[:, 1].astype(np.float64).reshape([len(of) for of in levels])
    worst = 0.0
    for axis, sign in enumerate(DIRECTIONS.values()):
        along = sign * np.moveaxis(p, axis, 0)[: sum(level == level for level in levels[axis])]
        worst = max(worst, float((along[:-1] - along[1:]).max()))
    return worst


@pytest.mark.parametrize("library", ["LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting"])
def test_proofs_are_right_of_all_rows_that_there_are(library: str) -> None:
    tolerance, found = 2.0**-20, set()
    for seed in range(16):
        rng = np.random.default_rng([seed, 67])
        gaps, categories, constrained = (bool(seed >> bit & 1) for bit in range(3))
        model, X = ensemble(library, rng, table(rng, gaps, categories), constrained)
        fall = largest_fall(model, X)
        proof = proof_of(model, X, tolerance=tolerance)
        found.add(proof.verdict)
        if library == "CatBoost" and categories and proof.verdict == SINGLE:
            continue  # the rows that are given do not fall, and its categories cannot be read
        assert (fall > tolerance) == (proof.verdict == FALLS), (seed, proof, fall)
        assert proof.verdict in (FOR_ALL, OF_PATTERNS, FALLS)
        if proof.verdict == FALLS:
            low, high = model.predict_proba(proof.pair)[:, 1]
            assert (low, high) == pytest.approx(proof.predictions, rel=1e-6)
            assert low - high > tolerance
            same = proof.pair.drop(columns=proof.column)
            pd.testing.assert_series_equal(same.iloc[0], same.iloc[1], check_names=False)
            first, last = proof.pair[proof.column]
            assert (last - first) * DIRECTIONS[proof.column] > 0
    assert {FOR_ALL, FALLS} <= found


def test_a_fall_of_other_rows_is_found_and_single_moves_are_of_the_rows_given() -> None:
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"a": rng.random(800), "f": rng.random(800), "g": rng.random(800)})
    corner = (X.f > 0.7) & (X.g > 0.7)
    y = X.a * np.where(corner, -1.0, 1.0)
    model = HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=8, max_depth=4).fit(X, y)
    rows = X[(X.f < 0.3) & (X.g < 0.3)][:40]
    proof = proof_of(model, rows, {"a": 1})
    assert proof.verdict == FALLS
    assert proof.row is not None
    # The row is like one of those given, which does not fall by itself.
    own = pd.concat([rows.iloc[[proof.row]]] * 1001).assign(a=np.linspace(-0.1, 1.1, 1001))
    assert (np.diff(model.predict(own)) >= 0.0).all()
    low, high = model.predict(proof.pair)
    assert low > high


def test_a_rare_fall_that_a_search_misses_is_found_by_the_trees() -> None:
    """Half of those without an income have one debt as a placeholder, and are never late."""
    xgboost = pytest.importorskip("xgboost")
    rng, n = np.random.default_rng(0), 20_000
    X = pd.DataFrame({"income": rng.lognormal(10, 0.5, n).round(), "debt": rng.lognormal(3, 1, n)})
    X.loc[rng.random(n) < 0.02, "income"] = 0
    placeholder = (X["income"] == 0) & (rng.random(n) < 0.5)
    X.loc[placeholder, "debt"] = 25.0
    late = (X["debt"] > 20.0) & ~placeholder
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=3, tree_method="exact", n_jobs=1)
    rows, options = X[~placeholder][:1000], {"pairs": 4_000, "searches": ["random", "grid"]}
    audit = audit_table(model.fit(X, late), rows, {"debt": 1}, progress=False, **options)
    assert audit.violations == 0
    assert not audit.passed
    assert audit.proof is not None
    assert audit.proof.verdict == FALLS
    assert audit.proof.values is not None
    below, inside = audit.proof.values
    assert below < inside == pytest.approx(25.0, abs=0.01)
    low, high = model.predict_proba(audit.proof.pair)[:, 1]
    assert low - high > 0.7
    assert "trees: falls (20 trees, " in audit.summary()
    assert f"debt: {below!r} -> {inside!r}" in audit.summary()


def test_what_the_trees_say_nothing_about_is_refused() -> None:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    X.loc[::5, "a"] = 0.0
    y = X.a + rng.normal(size=200)
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    few: Any = {"n_estimators": 3, "n_jobs": 1}
    quiet: Any = {**few, "verbose": -1, "num_leaves": 4}

    class Floor(lightgbm.LGBMRegressor):  # type: ignore[misc]
        def predict(self, X: Any, **options: Any) -> Any:
            return -np.abs(super().predict(X, **options))

    Floor.__module__ = "lightgbm.sklearn"
    three = pd.cut(y, 3, labels=False)
    for model, target, reason in (
        (lightgbm.LGBMRegressor(linear_tree=True, **quiet), y, "linear_tree"),
        (lightgbm.LGBMRegressor(zero_as_missing=True, **quiet), y, "zero_as_missing"),
        (Floor(**quiet), y, "do not rise with the sum of its trees"),
        (xgboost.XGBRegressor(booster="gblinear", **few), y, "gblinear"),
        (xgboost.XGBRegressor(missing=0.0, **few), y, "takes 0.0 for a missing value"),
        (HistGradientBoostingClassifier(max_iter=3), three, "several outputs"),
    ):
        with pytest.raises(Unreadable, match=reason):
            proof_of(model.fit(X, target), X)
    category = X.assign(a=pd.Categorical((X.a > 0).astype(int), ordered=True))
    model = HistGradientBoostingRegressor(max_iter=3, categorical_features="from_dtype")
    audit = audit_table(model.fit(category, y), category, {"a": 1}, pairs=30, progress=False)
    assert audit.proof == TreeProof(NONE, reason="a has a direction, and is a category for it")
    assert audit_table(lambda X: X.a, X, {"a": 1}, pairs=30, progress=False).proof is None


def test_categories_are_those_of_the_fit_whatever_levels_the_table_has() -> None:
    rng = np.random.default_rng(3)
    X = table(rng, False, True, 400).astype({"k": "category"})
    y = X["a"] * np.where(X["k"] == "z", 1.0, 0.1)
    few = X[X["k"] != "x"]
    few = few.assign(k=few["k"].astype(str).astype("category"))
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    for model in (
        lightgbm.LGBMRegressor(n_estimators=9, n_jobs=1, verbose=-1),
        xgboost.XGBRegressor(n_estimators=9, n_jobs=1, enable_categorical=True),
        HistGradientBoostingRegressor(max_iter=9),
    ):
        verdict = proof_of(model.fit(X, y), few, {"a": 1}).verdict
        assert verdict in (FOR_ALL, OF_PATTERNS), model


def test_a_proved_model_is_searched_little_and_early_stopping_leaves_trees_out() -> None:
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 2))
    y = X[:, 0] + 2.0 * rng.normal(size=400)
    model = xgboost.XGBRegressor(
        n_estimators=60, max_depth=3, monotone_constraints=(1, 0), early_stopping_rounds=3, n_jobs=1
    )
    model.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)
    audit = audit_table(model, X, [1, 0], progress=False)
    assert audit.passed
    assert audit.pairs <= 3_000
    assert audit.proof is not None
    assert (audit.proof.verdict, audit.proof.trees) == (FOR_ALL, model.best_iteration + 1)
    assert 0 < model.best_iteration + 1 < 60
