"""What data say against a fit: wrong directions, rows that tell of each other, coded labels."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

from pyro_gcm.estimators import GCMClassifier, GCMOrdinal, GCMRegressor, GCMSurvival
from pyro_gcm.estimators.kinds import scores

KINDS = {
    "classifier": (GCMClassifier, lambda score, rng: score + rng.logistic(size=len(score)) > 0),
    "numbers": (GCMRegressor, lambda score, rng: score + rng.normal(size=len(score))),
    "levels": (GCMOrdinal, lambda score, rng: np.digitize(score + rng.logistic(size=600), [-1, 1])),
    "times": (GCMSurvival, lambda score, rng: times(score, rng)),
}


def times(score, rng):
    """Exact and right-censored times, which come earlier with the score."""
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


def test_rows_that_tell_of_each_other_show_in_rows_that_were_held_out():
    def rows(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 12))
        return X, X[:, 0] + rng.logistic(size=n) > 0

    (X, y), new, often = rows(150, 0), rows(1000, 1), np.arange(150).repeat(6)
    near = X[often] + 0.05 * np.random.default_rng(2).normal(size=(900, 12))
    model = GCMClassifier(monotonic_cst=[1] + [0] * 11, members=4)
    # Over seeds the losses are 10 standard errors apart or more, and with groups below 3.
    (message,) = said(lambda: scores(model.fit(near, y[often]), *new))
    assert message.startswith("1,000 rows have a loss of")
    assert "groups= of fit" in message
    assert said(lambda: scores(model.fit(near, y[often], groups=often), *new)) == []


#: Tools that fit to labels, and whether they code them anew.
TOOLS = {
    "grid": (lambda one: GridSearchCV(one, {"hidden": [4]}, cv=2), False),
    "calibrated": (lambda one: CalibratedClassifierCV(one, cv=2), False),
    "calibrated at once": (lambda one: CalibratedClassifierCV(one, cv=2, ensemble=False), True),
    "voting": (lambda one: VotingClassifier([("one", one)], voting="soft"), True),
    "stacking": (lambda one: StackingClassifier([("one", one)], LogisticRegression()), True),
    "bagging": (lambda one: BaggingClassifier(one, n_estimators=1), True),
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
