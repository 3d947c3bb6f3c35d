"""How estimators are trained: few rows, the rate of the event, what data say."""

import copy
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from loans import loans
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import (
    GCMClassifier,
    GCMCounter,
    GCMOrdinal,
    GCMRegressor,
    GCMSurvival,
    IGCMClassifier,
)
from pyro_gcm.estimators.after_training import best_steepness
from pyro_gcm.estimators.plans import fit_members
from pyro_gcm.estimators.training import Trained, TrainingRows


def noisy(count, seed):
    """A table with a little to learn in 2 of its 20 columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 20))
    y = rng.random(count) < 1.0 / (1.0 + np.exp(1.0 - X[:, 0] - 0.5 * X[:, 1]))
    return X, y


@pytest.mark.filterwarnings("ignore:members need 20 rows")
@pytest.mark.long(keep=["10"])
@pytest.mark.parametrize("count", [10, 99])
def test_held_out_log_loss_is_no_worse_than_that_of_logistic_regression(count):
    test, outcome = noisy(4000, 99)
    ours, theirs = [], []
    for seed in range(3):
        X, y = noisy(count, seed)
        y[:2] = False, True
        model = GCMClassifier(monotonic_cst=[1, 1] + [0] * 18, random_state=seed).fit(X, y)
        ours.append(log_loss(outcome, model.predict_proba(test)[:, 1]))
        theirs.append(log_loss(outcome, LogisticRegression().fit(X, y).predict_proba(test)[:, 1]))
    assert np.mean(ours) < np.mean(theirs) + 0.05


def test_rows_of_the_prior_have_values_of_other_rows_and_its_weight():
    n, generator = 60, torch.Generator().manual_seed(0)
    x = torch.rand(n, 3, generator=generator)
    x[:, 2] = 1.0 - x[:, 1]  # which stand for one column of the table
    r, y = torch.rand(n, 1, generator=generator), torch.arange(n).float()
    weight = torch.full((n,), 2.0, dtype=torch.float64)
    rows = TrainingRows(x, r, y, weight, [1, 2]).with_prior(5.0, seed=1)
    other = slice(n, None)
    assert len(rows.y[other]) == n
    assert rows.weight[other].sum() == pytest.approx(5.0 * 2.0)
    assert torch.equal(rows.weight[:n], weight)
    for ours, theirs in ((rows.x, x), (rows.r, r), (rows.y[:, None], y[:, None])):
        for column in range(theirs.shape[1]):
            assert set(ours[other, column].tolist()) <= set(theirs[:, column].tolist())
    torch.testing.assert_close(rows.x[other, 2], 1.0 - rows.x[other, 1])
    together = (rows.x[other, :1] == x.T[0]) & (rows.y[other, None] == y)
    assert together.any(1).float().mean() < 0.2  # x and y are of different rows


DIRECTIONS = {"income": -1, "debt": 1}
MODELS = [
    GCMClassifier(members=2, hidden=8, epochs=3),
    GCMClassifier(prior="conditional", alternatives=3, costs=3, epochs=6, early_stopping=True),
    IGCMClassifier(epochs=6, early_stopping=True),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.early_stopping}")
def test_the_mean_probability_is_the_weighted_rate(model):
    X, y = loans(200)
    weight = np.random.default_rng(0).uniform(0, 2, 200)
    model.set_params(monotonic_cst=DIRECTIONS).fit(X, y, sample_weight=weight)
    p = model.predict_proba(X)[:, 1]
    assert np.average(p, weights=weight) == pytest.approx(
        np.average(y == "yes", weights=weight), abs=3e-4
    )


@pytest.mark.parametrize("make", [partial(GCMClassifier, prior="conditional"), IGCMClassifier])
def test_a_sampled_z_stops_before_it_knows_the_rows_by_heart(make):
    X, y = noisy(200, 0)
    test, outcome = noisy(500, 1)
    known = {"monotonic_cst": [1, 1] + [0] * 18, "random_state": 0, "hidden": 16}
    loss = {}
    for name, options in {"auto": {}, "100": {"epochs": 100}}.items():
        model = make(**known, **options).fit(X, y)
        p = model.predict_proba(test)[:, 1].astype(float).clip(1e-12, 1 - 1e-12)
        loss[name] = log_loss(outcome, p)
        assert (model.n_iter_ < 100) == (name == "auto")
    assert loss["auto"] < loss["100"] - 0.1
    few = make(**known).fit(X[:19], y[:19] | (np.arange(19) == 0))
    assert few.n_iter_ == 100  # too few rows to set some aside


def test_steepness_is_that_which_rows_left_out_ask_for():
    X, y = noisy(200, 0)
    x, r, outcome = (torch.from_numpy(part).float() for part in (X[:, 2:], X[:, :2], y))
    rows = TrainingRows(x, r, outcome, None, [1] * 18)
    model, result, crossed, _ = fit_members(x, r, outcome, progress=False)
    best = best_steepness(Trained(model, result, crossed), rows)
    before = copy.deepcopy(model)
    before.load_state_dict(crossed.weights)
    before.cost_net.steepness_bias.data += 0.3
    steeper = crossed._replace(weights=before.state_dict())
    again = best_steepness(Trained(model, result, steeper), rows)
    assert again == pytest.approx(best - 0.3, abs=0.1)


def test_calibration_changes_costs_alone():
    X, y = noisy(120, 1)
    known = {"monotonic_cst": [1, 1] + [0] * 18, "members": 2, "epochs": 3}
    fitted = {
        way: GCMClassifier(calibrate=way, early_stopping=True, **known).fit(X, y)
        for way in (False, "auto", True)
    }
    raw, shifted, steeper = (m.model_.cost_net.steepness_bias for m in fitted.values())
    assert torch.equal(shifted, raw)
    moved = (steeper - raw).detach()
    assert moved.abs().min() > 1e-4
    torch.testing.assert_close(moved, moved.mean().expand_as(moved), atol=1e-6, rtol=0.0)
    mean = {way: model.predict_proba(X)[:, 1].mean() for way, model in fitted.items()}
    assert mean["auto"] == pytest.approx(y.mean(), abs=1e-3)
    assert mean[True] == pytest.approx(y.mean(), abs=1e-3)
    assert abs(mean[False] - y.mean()) > 1e-3
    assert audit_table(fitted[True], X, pairs=300, progress=False).violations == 0


def test_calibration_needs_rows_that_are_left_out():
    X, y = noisy(60, 2)
    for model in (GCMClassifier(early_stopping=False), GCMClassifier(prior="conditional")):
        model.set_params(calibrate=True, monotonic_cst=[1] * 20)
        with pytest.raises(ValueError, match="calibrate=True needs predictions of rows that"):
            model.fit(X, y)


def test_members_start_at_the_rate_of_rare_events():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(400, 3)), 1.0 + 9.0 * (rng.random(400) < 0.1)
    still = {"monotonic_cst": [1, 0, 0], "learning_rate": 1e-9, "epochs": 1, "calibrate": False}
    for count, expected in ((20, True), (380, True), (80, False)):
        y = np.arange(400) < count
        rate = (weight * y).sum() / weight.sum()
        model = GCMClassifier(**still).fit(X, y, sample_weight=weight)
        mean = np.average(model.predict_proba(X)[:, 1], weights=weight)
        assert (abs(mean - rate) < 0.01) == expected, count


# What data say against a fit


KINDS = {
    "classifier": (GCMClassifier, lambda score, rng: score + rng.logistic(size=len(score)) > 0),
    "numbers": (GCMRegressor, lambda score, rng: score + rng.normal(size=len(score))),
    "levels": (GCMOrdinal, lambda score, rng: np.digitize(score + rng.logistic(size=600), [-1, 1])),
    "counts": (GCMCounter, lambda score, rng: rng.poisson(np.exp(0.5 * score))),
    "survival_times": (GCMSurvival, lambda score, rng: survival_times(score, rng)),
}


def survival_times(score, rng):
    """Exact and right-censored survival_times, which come earlier with the score."""
    came, seen = rng.exponential(size=600) * np.exp(-score), rng.exponential(size=600) * 4.0
    return np.stack([came <= seen, np.minimum(came, seen)], 1)


def said(call):
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("kind", KINDS)
def test_data_speak_against_a_wrong_direction_alone(kind):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 3)), columns=["rate", "age", "none"])
    make, outcome = KINDS[kind]
    y = outcome(1.5 * X["rate"].to_numpy() - X["age"].to_numpy(), rng)
    options = {"members": 3, "hidden": 8}
    right = make(monotonic_cst={"rate": 1, "age": -1, "none": 1}, **options)
    assert said(lambda: right.fit(X, y)) == []
    short = make(monotonic_cst={"rate": 1, "age": -1, "none": 1}, epochs=1, **options)
    assert said(lambda: short.fit(X, y)) == []
    # Over seeds z is -10 or less; it is one standard error of itself.
    (message,) = said(lambda: make(monotonic_cst={"rate": -1, "age": -1}, **options).fit(X, y))
    assert message.startswith("the data speak against direction - of column 'rate' (z = -")


#: Tools that fit to labels, and whether they code them anew: as 0 and 1, or as False and True.
TOOLS = {
    "grid": (lambda one: GridSearchCV(one, {"hidden": [4]}, cv=2), False),
    "calibrated": (lambda one: CalibratedClassifierCV(one, cv=2), False),
    "voting": (lambda one: VotingClassifier([("one", one)], voting="soft"), True),
    "one against the rest": (OneVsRestClassifier, True),
}


def test_the_event_does_not_turn_round_where_labels_are_coded_anew():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 50, size=(160, 1))
    late = X[:, 0] - 25.0 + 5.0 * rng.logistic(size=160) > 0
    one = GCMClassifier(monotonic_cst=[1], epochs=2, members=2, hidden=8)
    forms = {1: np.where(late, 1, 2), "yes": np.where(late, "yes", "zero")}
    for event, labels in forms.items():
        for name, (make, codes) in TOOLS.items():
            named, first = clone(one).set_params(positive=event), one.set_params(positive="first")
            model = make(first).fit(X, labels)
            rises = model.predict_proba([[0.0], [50.0]])[:, list(model.classes_).index(event)]
            assert rises[0] < rises[1], (event, name)
            if codes:
                with pytest.raises(ValueError, match=r"positive must be .*'first' or 'last'"):
                    make(named).fit(X, labels)
            else:
                make(named).fit(X, labels)
        with pytest.raises(ValueError, match=r"positive must be .*'first' or 'last'"):
            cross_val_predict(named, X, labels, cv=2, method="predict_proba")
    turned = clone(one).set_params(positive="last")
    with pytest.raises(ValueError, match=r"one of the classes \['last', 'late'\]"):
        turned.fit(X, np.where(late, "last", "late"))  # which is the first one
