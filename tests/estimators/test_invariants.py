"""What changes of a table leave as it was, for estimators of every kind.

The ideas are those of the tests of monotone constraints in scikit-learn, XGBoost, LightGBM,
CatBoost, interpret and pyGAM.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import zoo
from loans import loans

from pyro_gcm import estimators
from pyro_gcm.data.tables import read_table
from pyro_gcm.estimators.kinds import monotone_prediction, predictions
from pyro_gcm.training import Adam, AdamW

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*beyond the training rows", "ignore:.* copies of others", "ignore:the data speak"
)
DIRECTIONS = {"income": -1, "debt": 1}
#: Options of each kind.
CASES: dict[str, dict[str, Any]] = {
    "GCMClassifier": {"members": 2},
    "GCMClassifier, classes": {"members": 2},
    "GCMClassifier, sampled": {"prior": "conditional"},
    "GCMCompetingRisks": {"members": 2, "alternatives": 1, "costs": 1, "horizon": 1.0},
    "GCMCounter": {"members": 2},
    "GCMOrdinal": {"members": 2},
    "GCMRegressor": {"members": 2, "response": "continuous"},
    "GCMRegressor, distribution": {"members": 2, "response": "distribution"},
    "GCMSurvival": {"members": 2, "horizon": 1.0},
    "IGCMClassifier": {},
    "IGCMRegressor": {},
}
STRICT = [case for case in CASES if case.startswith("G")]


def made(case: str, directions: dict[str, int] = DIRECTIONS, **more: Any) -> Any:
    """An estimator before it is fitted."""
    of_labels = {"GCMClassifier, classes": "c", "GCMCompetingRisks": "default"}
    cst = {of_labels[case]: directions} if case in of_labels else directions
    options = {"monotonic_cst": cst, "epochs": 2, "hidden": 8, **CASES[case], **more}
    return getattr(estimators, case.partition(",")[0])(**options)


@functools.cache
def rows(case: str, count: int = 240, coarse: bool = False) -> tuple[pd.DataFrame, Any]:
    """Loans and an outcome; `coarse`: of few values, each of which many rows have."""
    X, labels = loans(count)
    rng = np.random.default_rng(1)
    numbers = 3.0 * (labels == "yes") + rng.normal(size=count)
    rate = np.exp(-0.5 * numbers)
    ends = np.stack([rng.uniform(0.5, 6.0, count), rate, rng.exponential(size=count)], 1)
    if coarse:
        numbers, ends = numbers.round(), np.ceil(2.0 * ends) / 2.0
        X["income"], X["debt"] = X["income"].rank(pct=True).round(1), (X["debt"] / 10.0).round()
        X["years"] = (X["years"] // 6).astype(str)
    time, cause = ends.min(1), np.array([None, "default", "repaid"], object)[ends.argmin(1)]
    place = np.digitize(numbers, [0.0, 2.0])
    outcomes: dict[str, Any] = {
        "GCMClassifier, classes": np.array([*"abc"])[place],
        "GCMCompetingRisks": pd.DataFrame({"event": cause, "time": time}),
        "GCMCounter": np.random.default_rng(2).poisson(1.0 + (labels == "yes")),
        "GCMOrdinal": place,
        "GCMSurvival": pd.DataFrame({"event": cause == "default", "time": time}),
    }
    return X, outcomes.get(case, numbers if "Regressor" in case else labels)


def some(y: Any, index: Any) -> Any:
    return y.iloc[index] if isinstance(y, pd.DataFrame) else y[index]


@functools.cache
def fitted(case: str) -> Any:
    return made(case).fit(*rows(case))


@pytest.mark.filterwarnings("ignore:X has no value in", "ignore:.* what fit never")
@pytest.mark.parametrize("case", CASES)
def test_a_column_of_one_value_changes_nothing(case: str) -> None:
    X, y = rows(case)
    one = {"year": 2024.0, "land": "ch", "stage": pd.Categorical(["a"] * 240, ordered=True)}
    model = made(case).fit(X.assign(**one, nothing=np.nan), y)
    later = X.assign(year=2030.0, land="de", stage=one["stage"], nothing=5.0)
    level = 0.9 if model.rows_behind_ else None
    found = predictions(model, later, level=level)
    for name, values in predictions(fitted(case), X, level=level).items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_one_value_in_a_column_with_a_direction_is_told_and_its_order_kept() -> None:
    X, y = rows("GCMClassifier")
    with pytest.warns(UserWarning, match="X has one value in column 'fee', which has a direction"):
        model = made("GCMClassifier", {**DIRECTIONS, "fee": 1}).fit(X.assign(fee=3.0), y)
    low, high = (model.predict_proba(X.assign(fee=fee))[:, 1] for fee in (2.0, 9.0))
    assert (high >= low).all()


@pytest.mark.parametrize("case", STRICT)
def test_units_and_signs_of_columns_change_nothing(case: str) -> None:
    """Powers of two divide exactly, so that the numbers are the same; IGCM sums r in its units."""
    X, y = rows(case)
    other = X.assign(income=-X["income"] / 8.0, debt=4.0 * X["debt"], years=16 * X["years"])
    model = made(case, dict.fromkeys(DIRECTIONS, 1)).fit(other, y)
    wanted = monotone_prediction(fitted(case), X)
    np.testing.assert_array_equal(monotone_prediction(model, other), wanted)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gradient descent in float64, which makes no whole steps of rounding errors."""

    @torch.no_grad()
    def step(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter -= group["lr"] * parameter.grad

    step.hooked = True  # type: ignore[attr-defined]  # so that torch wraps nothing around it
    for kind in (Adam, AdamW):
        monkeypatch.setattr(kind, "step", step)
    with zoo.default_dtype(torch.float64):
        yield


@pytest.mark.parametrize("case", CASES)
def test_order_of_rows_units_of_y_and_copies_for_weights_change_nothing(
    case: str, plain: None
) -> None:
    """Of full batches: mini-batches are others, and draws of z belong to places in a batch."""
    X, y = rows(case, 1000, coarse=True)
    drawn = "members" not in CASES[case]
    options = {"batch_size": 4096} | ({} if drawn else {"dropout": 0.0})

    def fit(y: Any, index: Any, weight: Any = None, *, rate: float = 0.3, **more: Any) -> Any:
        model = made(case, **options, **more, learning_rate=1e-9 if drawn else rate)
        model.fit(X.iloc[index], some(y, index), sample_weight=weight)
        return monotone_prediction(model, X)

    def same(found: Any, wanted: Any, margin: float = 1e-8) -> None:
        np.testing.assert_allclose(found, wanted, rtol=margin, atol=margin)

    each = np.arange(1000)
    wanted = fit(y, each)
    same(fit(y, np.random.default_rng(3).permutation(1000)), wanted)
    if "Regressor" in case:
        same(fit(0.3 * y + 12.0, each), 0.3 * wanted + 12.0)
    elif "horizon" in CASES[case]:
        same(fit(y.assign(time=12.0 * y["time"]), each, horizon=12.0), wanted)
    if drawn:
        return
    assert np.abs(fit(y, each, rate=1e-9) - wanted).max() > 0.01 * wanted.std()
    weight, twice = 1.0 + each % 2, np.tile(each, 2)
    part = np.where(weight == 1.0, 0.25, 1.0)
    copied = fit(y, twice, np.concatenate([part, weight - part]))
    same(fit(y, twice, np.tile(weight, 2)), copied)
    if "horizon" not in CASES[case]:  # where ramps of x are as many as rows allow
        # The rate of all rows has half an event more.
        same(fit(y, each, weight), copied, 1e-3 if case == "GCMCounter" else 1e-8)


@pytest.mark.parametrize("case", STRICT)
def test_every_member_or_draw_is_monotone_also_between_ties(case: str) -> None:
    for coarse in (False, True):
        X, y = rows(case, coarse=coarse)
        model = made(case).fit(X, y) if coarse else fitted(case)
        x, r = model.encoding_(read_table(X))
        before = model.model_.predict_draws(x, r)
        assert len(before) > 1
        assert before.isfinite().all()
        assert (before[0] != before[1]).any()
        for column in range(r.shape[1]):
            for step in (1e-6, 0.05, 1.0, 9.0):
                after = model.model_.predict_draws(x, r + step * torch.eye(r.shape[1])[column])
                assert (after >= before).all(), (coarse, column, step)
            assert (after > before).any(), (coarse, column)


@pytest.mark.parametrize("case", STRICT)
def test_bands_nest_and_a_column_that_is_there_twice_keeps_its_direction(case: str) -> None:
    X, y = rows(case)
    if fitted(case).rows_behind_ is not None:
        bands = [fitted(case).predict_bands(X, level) for level in (0.2, 0.5, 0.9, 0.99)]
        assert (np.diff([band.lower for band in bands], axis=0) <= 0.0).all()
        assert (np.diff([band.upper for band in bands], axis=0) >= 0.0).all()
        assert (bands[0].lower < bands[0].upper).all()
    twice = X.assign(again=X["debt"])
    model, chosen = made(case, {**DIRECTIONS, "again": 1}).fit(twice, y), twice.dropna()
    low = monotone_prediction(model, chosen)
    for names in (["debt"], ["again"], ["debt", "again"]):
        high = monotone_prediction(model, chosen.assign(**{n: chosen[n] + 9.0 for n in names}))
        assert (high >= low).all(), names
    assert (high > low).any()


def relabelled(case: str, model: Any, X: pd.DataFrame) -> tuple[pd.DataFrame, Any, Any]:
    """Rows with the outcomes that a model predicts, weighted by their probabilities, or means."""
    weight: Any
    if case in ("GCMRegressor", "IGCMRegressor"):
        return X, model.predict(X), None
    if case in ("GCMRegressor, distribution", "GCMSurvival"):
        levels = np.arange(0.1, 1.0, 0.2)
        ask = getattr(model, "predict_quantiles", None) or model.predict_quantile
        y, weight = ask(X, levels).T.ravel(), np.ones(5 * len(X))
        y = (np.ones(len(y), dtype=bool), y) if case == "GCMSurvival" else y
    elif case == "GCMCompetingRisks":
        at = np.array([0.3, 0.7, 1.0, 2.0, 6.0])
        shares = model.predict_cumulative_incidence(X, at)
        left = 1.0 - shares[:, -1:].sum(2)
        weight = np.diff(shares, axis=1, prepend=0.0).reshape(len(X), -1)
        weight = np.concatenate([weight, left], 1).T.ravel()
        cause = np.array([*np.tile(model.causes_, len(at)), None], dtype=object)
        time = np.append(np.repeat([0.2, 0.5, 0.85, 1.4, 3.0], 2), at[-1])
        y = cause.repeat(len(X)), time.repeat(len(X))
    else:
        values = np.arange(30) if case == "GCMCounter" else model.classes_
        shares = model.pmf(X, values) if case == "GCMCounter" else model.predict_proba(X)
        y, weight = values.repeat(len(X)), shares.T.ravel()
    return X.iloc[np.tile(np.arange(len(X)), len(weight) // len(X))], y, weight


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("case", CASES)
def test_a_fit_to_what_a_model_predicts_stays_near_it(case: str) -> None:
    X, y = rows(case)
    model = made(case, epochs=15, hidden=16).fit(X, y)
    again = made(case, epochs=15, hidden=16).fit(*relabelled(case, model, X))
    wanted, found = (monotone_prediction(each, X) for each in (model, again))
    # Over eight seeds this share has means of .87 to .98, and standard deviations of at most .044.
    assert 1.0 - np.square(found - wanted).mean() / wanted.var() > 0.65
