"""Changes of several columns: the cheapest of all, as an enumeration finds it, or none."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

from pyro_gcm.estimators import GCMClassifier, GCMOrdinal, GCMRegressor, IGCMClassifier, Move

GRADES = ["a", "b", "c", "d"]


def people(rows, seed=0):
    """A table with a column of every kind, of which some are missing, and a score."""
    rng = np.random.default_rng(seed)
    debt, arrears = rng.uniform(0, 20, rows).round(1), rng.integers(0, 4, rows).astype(float)
    grade, town = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    income = rng.uniform(1, 9, rows).round(2)
    X = pd.DataFrame(
        {
            "debt": debt,
            "arrears": arrears,
            "grade": pd.Categorical.from_codes(grade, GRADES, ordered=True),
            "town": np.array(["north", "south", "west"])[town],
            "income": income,
            "ratio": debt / income,
        }
    )
    X.loc[::9, "arrears"] = np.nan
    score = 0.1 * debt + arrears + 0.5 * grade - 0.6 * town - 0.4 * income + 0.1 * X["ratio"]
    return X, score + rng.logistic(size=rows) - 0.5


X, SCORE = people(300)
CST = {"debt": 1, "arrears": 1, "grade": 1, "income": -1, "ratio": 1}
OPTIONS = {"monotonic_cst": CST, "epochs": 8, "hidden": 16, "members": 3}
ROWS = people(12, seed=1)[0]
#: The new values of each column, and what they cost.
MOVES = {
    "debt": (Move(cost=0.3, step=2.5, low=0, high=15), np.arange(7) * 2.5, 0.3),
    "arrears": (Move(cost=1.1, high=np.arange(12) % 4.0), np.arange(4.0), 1.1),
    "grade": (Move(cost=0.7, values=["a", "c", "d"]), ["a", "c", "d"], 0.7),
    "town": (Move(cost=2.3, values=["south", "west"]), ["south", "west"], 2.3),
}


@pytest.fixture(scope="module")
def classifier():
    return GCMClassifier(**OPTIONS).fit(X, SCORE > 0)


def enumerated(predict, row, at, names):
    """All changes of one row: which columns change, predictions, and costs."""
    lists = []
    for name in names:
        values = MOVES[name][1]
        if name == "arrears":
            values = [each for each in values if each <= at % 4]
        if name in CST and pd.isna(row[name].iloc[0]):
            values = []
        lists.append([row[name].iloc[0], *(each for each in values if each != row[name].iloc[0])])
    every = [*itertools.product(*(range(len(each)) for each in lists))]
    table = pd.concat([row] * len(every), ignore_index=True)
    cost = np.zeros(len(every))
    for column, (name, values) in enumerate(zip(names, lists, strict=True)):
        new = pd.Series([values[change[column]] for change in every])
        price = MOVES[name][2]
        if name == "town":
            cost += price * (new != values[0])
        else:
            numbers = new.map(GRADES.index) if name == "grade" else new.fillna(0.0)
            cost += price * (numbers - numbers[0]).abs()
        table[name] = pd.Categorical(new, GRADES, ordered=True) if name == "grade" else new
    return np.array(every) > 0, predict(table), cost.to_numpy()


def test_changes_are_the_cheapest_of_all_or_there_is_none(classifier):
    regressor = GCMRegressor(**OPTIONS).fit(X, SCORE)
    models = (
        (classifier, lambda rows: classifier.predict_proba(rows)[:, 1], (0.2, 0.9)),
        (
            regressor,
            regressor.predict,
            (0.5, 2.0),
        ),
    )
    names, found_none, compared = [*MOVES], 0, 0
    for (model, predict, levels), size, most in itertools.product(models, (1, 2, 4), (1, 2, 3)):
        for below, level in zip((True, False), levels, strict=True):
            some = names[:size] if most < 3 else names[-size:]
            options = {"below": below, "max_columns": most, "count": 3}
            found = model.recourse(ROWS, level, {name: MOVES[name][0] for name in some}, **options)
            for at in range(len(ROWS)):
                changed, p, cost = enumerated(predict, ROWS[at : at + 1], at, some)
                mine = found[found["row"] == at]
                good, kept = (p < level) if below else (p >= level), changed.sum(1) <= most
                if good[0]:
                    assert mine.empty
                    continue
                left = good & kept
                if not left.any():
                    assert mine["changes"].tolist() == [{}]
                    assert mine["cost"].tolist() == [np.inf]
                    assert mine["prediction"].item() == (p[kept].min() if below else p[kept].max())
                    assert "no such change is enough" in mine["text"].item().lower()
                    found_none += 1
                for change in mine[np.isfinite(mine["cost"])].itertuples():
                    assert change.cost == pytest.approx(cost[left].min(), rel=1e-9)
                    moved = np.array([name in change.changes for name in some])
                    same = left & (changed == moved).all(1) & (p == change.prediction)
                    assert cost[same].min() == pytest.approx(change.cost, rel=1e-9)
                    left &= ~changed[:, moved].all(1)
                    compared += 1
                assert len(mine) == 3 or not left.any()
    assert compared > 100
    assert found_none > 20


def test_a_change_does_what_it_says_and_the_step_before_does_not(classifier):
    rows = people(100, seed=2)[0]
    moves = {name: Move() for name in ("debt", "arrears", "income", "grade")}
    found = classifier.recourse(rows, 0.3, moves, below=True, count=1)
    known = found[np.isfinite(found["cost"])]
    assert len(known) > 20
    for change in known.itertuples():
        row = rows.iloc[[change.row]].assign(**change.changes)
        assert classifier.predict_proba(row)[0, 1] == change.prediction < 0.3
        if "debt" in change.changes:
            value, now = change.changes["debt"], rows["debt"][change.row]
            assert f"debt {value:g} or less in place of {now:g}" in change.text
            before = row.assign(debt=min(now, value + 0.1))  # the step of 19.9 / 100, rounded
            assert classifier.predict_proba(before)[0, 1] >= 0.3
        assert change.changes.get("arrears", 0.0) % 1.0 == 0.0


@pytest.mark.parametrize(
    "ratio",
    [lambda debt, income: debt / income, lambda debt, income: (25.0 - debt) / income],
    ids=["falls-with-debt", "rises-as-debt-falls"],
)
def test_columns_that_follow_others_move_with_them(classifier, ratio):
    rows = people(40, seed=3)[0]
    moves = {"debt": Move(cost=1.0, step=1.0, low=0), "income": Move(cost=2.0, step=1.0, high=12)}

    def derive(columns):
        return {"ratio": ratio(columns["debt"], columns["income"])}

    found = classifier.recourse(rows, 0.4, moves, below=True, count=1, derive=derive)
    assert np.isfinite(found["cost"]).sum() > 10
    for change in found.itertuples():
        row = rows.iloc[[change.row]]
        debt, income = row["debt"].item(), row["income"].item()
        less = np.append(debt, np.arange(np.ceil(debt)))
        more = np.append(income, np.arange(np.floor(income) + 1.0, 13.0))
        d, i = (each.ravel()[1:] for each in np.meshgrid(less, more))  # without the row itself
        every = pd.concat([row] * len(d)).assign(debt=d, income=i, ratio=ratio(d, i))
        good = classifier.predict_proba(every)[:, 1] < 0.4
        cost = (debt - d) + 2.0 * (i - income)
        assert change.cost == pytest.approx(cost[good].min() if good.any() else np.inf, rel=1e-9)
        if good.any():
            moved = row.assign(**change.changes)
            assert classifier.predict_proba(moved)[0, 1] == change.prediction < 0.4
            assert moved["ratio"].item() == ratio(moved["debt"].item(), moved["income"].item())


def test_reasons_round_to_the_side_that_does(classifier):
    for below, level in ((True, 0.3), (False, 0.6)):
        found = classifier.reasons(X[:80], level, below=below)
        found = found[found["possible"] & (found["feature"] != "grade")]
        assert {"debt", "arrears", "income"} <= {*found["feature"]}
        for reason in found.itertuples():
            told = float(re.search("with (.*) or (more|less) in its", reason.text)[1])
            p = classifier.predict_proba(
                X[reason.row : reason.row + 1].assign(**{reason.feature: told})
            )[0, 1]
            assert (p < level) == below
            assert reason.feature != "arrears" or told % 1.0 == 0.0


def test_bad_input_is_refused_by_name(classifier):
    def refused(message, movable, error=ValueError, **options):
        with pytest.raises(error, match=message):
            classifier.recourse(ROWS, 0.3, movable, **options)

    refused("movable must be a mapping from columns to Move, got", ["debt"], TypeError)
    refused("movable must have a Move for column 'debt', got float", {"debt": 1.0}, TypeError)
    refused("feature must be a column, one of .*'ratio'.*, got 'age'", {"age": Move()})
    refused("values of column 'town', which has no direction, must be given", {"town": Move()})
    refused(r"column 'town' has the levels .*, got \['east'\]", {"town": Move(values=["east"])})
    refused("values of column 'debt' must be finite", {"debt": Move(values=[np.nan])})
    refused("cost of column 'debt' must be a number above 0, got 0", {"debt": Move(cost=0)})
    refused("step of column 'debt' must be a number above 0, got -1", {"debt": Move(step=-1)})
    refused("step of column 'debt' must leave at most 10000", {"debt": Move(step=1e-4)})
    refused("high of column 'debt' must be .* 12 rows, got", {"debt": Move(high=[1.0, 2.0])})
    refused("low of column 'grade' must be None: give its values", {"grade": Move(low=1)})
    refused("step of column 'debt' must be None", {"debt": Move(step=1, values=[2.0])})
    moves = {"debt": Move()}
    refused("max_columns must be an integer of at least 1, got 0", moves, max_columns=0)
    refused("derive must return columns of numbers .*, got 'debt'", moves, derive=lambda c: c)
    refused("derive must return .* numbers for 'ratio'", moves, derive=lambda c: {"ratio": 1.0})
    many = {"debt": Move(), "town": Move(values=["south"] * 40_000)}
    refused("max_columns must leave at most 65536 choices", many)
    assert not hasattr(IGCMClassifier, "recourse")
    ordinal = GCMOrdinal(**{**OPTIONS, "epochs": 1}).fit(X, pd.cut(SCORE, 3, labels=GRADES[:3]))
    found = ordinal.recourse(ROWS, 0.5, {"debt": Move()}, below=True)
    assert (found["prediction"] < 0.5).any() or np.isinf(found["cost"]).all()
