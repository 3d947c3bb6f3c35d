"""Tables of every kind: what is read of them, what was misread once, and the errors."""

import inspect
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import torch
from loans import loans
from sklearn.exceptions import NotFittedError

from pyro_gcm import estimators, load, save
from pyro_gcm.data.tables import Column, read_table
from pyro_gcm.estimators import GCMClassifier, GCMRegressor, IGCMClassifier
from pyro_gcm.estimators.encoding import ColumnEncoding
from pyro_gcm.estimators.table_encoding import TableEncoding

OPTIONS = {"monotonic_cst": {"income": -1, "debt": 1, "grade": 1}, "epochs": 2, "hidden": 8}


@pytest.fixture(scope="module")
def fitted():
    X, y = loans(200)
    return GCMClassifier(**OPTIONS, members=2).fit(X, y), X, y


def test_rows_with_gaps_and_levels_do_not_depend_on_the_kind_of_frame(fitted):
    model, X, y = fitted
    expected = model.predict_proba(X)
    frame = polars.from_pandas(X).with_columns(polars.col("grade").cast(polars.String))
    for same in (frame, pyarrow.Table.from_pandas(X), X.convert_dtypes()):
        assert np.array_equal(model.predict_proba(same), expected)
    # Frames of polars are trained on as they are.
    frame = frame.with_columns(polars.col("grade").cast(polars.Enum(["A", "B", "C"])))
    other = GCMClassifier(**OPTIONS, members=2).fit(frame, y)
    assert np.array_equal(other.predict_proba(frame), expected)


def test_levels_that_fit_did_not_see_are_counted() -> None:
    """Where there are more of them than one and twice the share of rare ones in fit."""
    X = pd.DataFrame({"n": range(40), "job": ["clerk", "cook"] * 20})
    rare = X.assign(job=[*["clerk", "cook"] * 18, *"abcd"])
    options = {"monotonic_cst": {"n": 1}, "epochs": 1, "members": 2}
    for table, new, told in (
        (X, X[:10].assign(job=["pilot"] * 3 + [None] + ["cook"] * 6), "in 3 of 10 rows .* never"),
        (rare, rare[:10].assign(job=["pilot"] * 4 + ["cook"] * 6), "in 4 of 10 rows .* or rarely"),
        (rare, rare[:10].assign(job=["pilot"] * 3 + ["cook"] * 7), ""),
        (X, X[:10], ""),
    ):
        model = GCMClassifier(**options).fit(table, X["n"] > 20)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.predict_proba(new)
        assert len(caught) == bool(told)
        for each in caught:
            assert re.match(f"column 'job' has {told} saw, such as 'pilot'", str(each.message))


def test_what_a_network_reads_of_each_kind_of_column():
    levels = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    table = pd.DataFrame(
        {
            "number": [1.0, 3.0, np.nan, 5.0, 7.0] * 3,
            "flag": [True, False, True, True, False] * 3,
            "text": ["a", "b", "a", "b", None] * 3,
            "rare": ["a"] * 13 + ["b", "c"],
            "order": pd.Series(["low", "high", "mid", "low", "low"] * 3, dtype=levels),
            "up": [10, 20, 30, 40, 50] * 3,
            "down": [1.0, np.nan, 3.0, 4.0, 5.0] * 3,
            "decimal": [Decimal(n) for n in range(15)],
        }
    )
    columns = read_table(table)
    signs = [0, 0, 0, 0, 0, 1, -1, 0]
    categorical = (column.categorical for column in columns)
    each = map(ColumnEncoding.learn, columns, signs, categorical)
    encoding = TableEncoding([*each])
    assert [code.width for code in encoding.columns] == [2, 1, 3, 2, 2, 0, 1, 1]
    x, r = encoding(columns)
    assert x.shape == (15, 12)
    assert r.shape == (15, 2)
    assert x[:5, 1].tolist() == [0, 0, 1, 0, 0]  # where the number is missing
    assert x[:5, 3:6].tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert x[:, 6:8].tolist() == [[1, 0]] * 13 + [[0, 1]] * 2  # the rare levels share one
    assert encoding.ordered == []  # "low" alone has enough rows
    assert (r[:5, 0].diff() > 0).all()
    assert r[1, 1] == 0
    assert (r[2:5, 1].diff() < 0).all()
    new = table.assign(text="unseen", rare="unseen")
    x, _ = encoding(read_table(new))
    assert np.allclose(x[:, 3:6], [0.4, 0.4, 0.2])  # the average row
    assert x[:, 6:8].tolist() == [[0, 1]] * 15


def test_scaled_numbers_rise_whatever_their_size_and_offset():
    for scale in (1e-300, 1e-30, 1.0, 1e30, 1e290):
        for offset in (0.0, 1e9):
            values = scale * (offset + np.random.default_rng(0).lognormal(0, 1, 500))
            code = ColumnEncoding.learn(Column("a", values), 1, False)
            z = code.scaled(torch.from_numpy(np.sort(values))).numpy()
            assert (np.diff(z) >= 0).all()
            # The columns of 1e-300 are so narrow that float64 itself has no more digits of them.
            assert len(np.unique(z)) > 450
            assert np.abs(z).max() < 30
            far = code.scaled(torch.tensor([-1.7e308, 1.7e308], dtype=torch.float64))
            assert far.isfinite().all()
            assert far[0] <= z[0] < z[-1] <= far[1]


def wrong():
    """What a message says is wrong: of the table, the outcomes or the options."""
    X, y = loans(60)
    columns = {
        "column 'k' of X has categories ... such as Interval": pd.cut(X["years"], 3),
        "'utf-8' codec can't decode byte 0xff": pd.Series([b"\xff"] * 60, dtype=object),
        "column 'k' of X must have ...Sparse": pd.arrays.SparseArray(X["years"]),
        "column 'k' of X must have ...period": pd.period_range("2020", periods=60),
    }
    return {
        **{message: {"X": X.assign(k=column)} for message, column in columns.items()},
        "column 3 of X has text or categories": {"X": X.to_numpy(), "monotonic_cst": None},
        "must be a mapping from classes to directions": {"y": ["a", "b", "c"] * 20},
        "y must have at least two classes, got one class, 'no'": {"y": ["no"] * 60},
        "two classes, got one class, 'yes'": {"class_weight": {"no": 0}},
        "inconsistent numbers of samples: [60, 3]": {"y": y[:3]},
        "'job' of X has text or categories, such as 'clerk'": {"categorical_features": None},
        "monotonic_cst names ['incom'], and X has": {"monotonic_cst": {"incom": 1}},
        "monotonic_cst names ['debts'], and X has": {"monotonic_cst": pd.Series({"debts": 1})},
        "+1, -1 or 0 for each of the 5 columns, got [1, 0]": {"monotonic_cst": [1, 0]},
        "+1, -1 or 0 for each of the 5 columns, got [0, 2": {"monotonic_cst": {"debt": 2}},
        "+1, -1 or 0 for each of the 5 columns, got [0, 'up'": {"monotonic_cst": {"debt": "up"}},
        "column 'job' has text or categories without an order": {"monotonic_cst": {"job": 1}},
        "got 'jobs', and X has the columns ['income',": {"categorical_features": ["jobs"]},
        "categorical_features must be 'from_dtype'": {"categorical_features": "auto"},
        "indices of columns, or a mask of all, got 9": {"categorical_features": [9]},
        "Negative values in data passed to `sample_weight`": {"class_weight": {"no": -1}},
        "sample_weight contains infinity": {"class_weight": {"no": np.inf}},
    }


def test_bad_tables_and_options_are_refused_by_name():
    for message, given in wrong().items():
        X, y = loans(60)
        X, y = given.pop("X", X), given.pop("y", y)
        pattern = ".*".join(map(re.escape, message.split("...")))
        with pytest.raises((TypeError, ValueError), match=pattern):
            GCMClassifier(**{**OPTIONS, **given}).fit(X, y)


#: What cannot be asked of a model and its table, and the error.
ASKED_WRONGLY = {
    "yet now missing:\n- income": lambda m, X: m.predict(X.drop(columns="income")),
    "unseen at fit time:\n- salary": lambda m, X: m.predict(X.rename(columns={"income": "salary"})),
    r"got LazyFrame: pass X\.collect": lambda m, X: m.predict(
        polars.from_pandas(X[["debt"]]).lazy()
    ),
    "feature must be a column with a direction": lambda m, X: m.required(X, "job", 0.5),
    r"probability must be .* in \(0, 1\), got 2": lambda m, X: m.required(X, "debt", 2.0),
    r"level must be a number in \(0, 1\), got 1": lambda m, X: m.predict_bands(X, level=1),
    "values must be a list of values of col": lambda m, X: m.response_curve(X, "debt", 5.0),
    "values must be a list of values of": lambda m, X: m.response_curve(X, "debt", [np.nan]),
    "bands need a GCM with prior=": lambda m, X: (
        IGCMClassifier(epochs=1).fit(X, [0, 1] * 100).predict_bands(X)
    ),
    "n_samples=1": lambda m, X: GCMRegressor().fit(X[:1], [1.0]),
}


def test_what_cannot_be_asked_is_refused_by_name(fitted):
    for message, ask in ASKED_WRONGLY.items():
        with pytest.raises((TypeError, ValueError), match=message):
            ask(*fitted[:2])


#: A value for each argument that a method needs.
NEEDED = {"feature": "debt", "probability": 0.5, "values": [0.5], "levels": [0.5], "counts": [0]}
NEEDED |= {"movable": {"debt": estimators.Move()}, "background": loans(5)[0]}


def test_what_is_not_fitted_says_so_whatever_is_asked():
    given = {"X": loans(5)[0], "y": np.arange(5.0), **NEEDED}
    kinds = map(vars(estimators).get, estimators.__all__)
    for kind in (kind for kind in kinds if hasattr(kind, "fit")):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if name.startswith(("_", "fit", "get_", "set_", "new_", "exposure_of")):
                continue
            parameters = [*inspect.signature(method).parameters.values()][1:]
            needed = {p.name: given[p.name] for p in parameters if p.default is p.empty}
            if name == "explain" and kind in (estimators.GCMRegressor, estimators.GCMCounter):
                needed["above"] = 0.5
            with pytest.raises(NotFittedError, match="not fitted yet"):
                pytest.fail(f"{kind.__name__}.{name} returns {method(kind(), **needed)}")


def test_missing_columns_that_training_rows_had_are_the_median(fitted):
    model, X, _ = fitted
    assert not X["years"].isna().any()
    median = X["years"].sort_values().iloc[round(0.5 * (len(X) - 1))]
    missing, at_median = X.assign(years=np.nan), X.assign(years=median)
    assert np.array_equal(model.predict_proba(missing), model.predict_proba(at_median))
    expected, rest = model.predict_proba(X.assign(income=np.nan)), X.drop(columns="income")
    arrow = pyarrow.Table.from_pandas(rest)
    for without_a_type in (
        X.assign(income=None),
        X.assign(income=pd.NA),
        polars.from_pandas(rest).with_columns(polars.lit(None).alias("income")),
        arrow.append_column("income", pyarrow.nulls(len(X))),
    ):
        assert np.array_equal(model.predict_proba(without_a_type), expected)


DIRECTIONS = {"income": -1, "debt": 1}
SMALL = {"monotonic_cst": DIRECTIONS, "epochs": 2, "hidden": 8, "members": 2}


@pytest.fixture(scope="module")
def numbers():
    X, y = loans(80)
    return X[["income", "debt"]].copy(), y


@pytest.fixture(scope="module")
def model(numbers):
    return GCMClassifier(**SMALL).fit(*numbers)


def test_directions_are_never_read_by_the_wrong_name(numbers):
    X, y = numbers
    by_position = pd.Series([-1, 1])
    model = GCMClassifier(**{**SMALL, "monotonic_cst": by_position}).fit(X, y)
    assert [column.sign for column in model.encoding_.columns] == [-1, 1]
    swapped = X.set_axis([1, 0], axis=1)  # the names of columns are text, and these two "1" and "0"
    model = GCMClassifier(**{**SMALL, "monotonic_cst": {0: 1}}).fit(swapped, y)
    assert [column.sign for column in model.encoding_.columns] == [0, 1]


@pytest.mark.filterwarnings("ignore:.*beyond the training rows|X does not have valid feature names")
def test_values_are_required_of_lists(model, numbers):
    rows = numbers[0][:3]
    of_lists = model.required(rows.to_numpy().tolist(), "debt", 0.5)
    assert of_lists.equals(model.required(rows, "debt", 0.5).reset_index(drop=True))
    assert model.predict_bands(rows, level=np.float32(0.5)).level == 0.5


def test_a_curve_does_not_hide_a_column_of_its_own(numbers):
    X, y = numbers
    X = X.rename(columns={"debt": "lower"})
    model = GCMClassifier(**{**SMALL, "monotonic_cst": {"lower": 1}}).fit(X, y)
    with pytest.raises(ValueError, match="column 'lower' has the name of a column of the result"):
        model.response_curve(X, "lower")
    assert list(model.response_curve(X, 1)) == ["1", "prediction", "lower", "upper"]


def test_outcomes_that_float32_cannot_tell_apart(numbers):
    X, _ = numbers
    y = np.linspace(1.0, 50.0, len(X))
    for size in (1e-110, 1e110):
        with pytest.raises(ValueError, match="y must have sizes and differences from 1e-100 to"):
            GCMRegressor(**SMALL).fit(X, size * y)
    near = GCMRegressor(**SMALL).fit(X, y)
    far = GCMRegressor(**SMALL).fit(X, 1e10 + y)
    for ask in (lambda m: m.predict(X[:9]), lambda m: m.predict_interval(X[:9])):
        np.testing.assert_allclose(ask(far) - 1e10, ask(near), rtol=1e-3, atol=1e-2)


def test_a_fit_that_fails_leaves_the_last_one(numbers):
    X, y = numbers
    model = GCMClassifier(**SMALL).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="two classes"):
        model.fit(X[["debt", "income"]], ["no"] * len(X))
    assert list(model.feature_names_in_) == ["income", "debt"]
    assert np.array_equal(model.predict_proba(X), before)


@pytest.mark.filterwarnings("error")
def test_certain_outcomes_are_explained_without_warnings(numbers):
    X, _ = numbers
    model = GCMRegressor(**SMALL).fit(X, np.linspace(0.0, 1.0, len(X)))
    assert (model.explain(X, above=1e6)["outcome"] == 0).all()
    assert (model.explain(X, above=-1e6)["outcome"] == 1).all()


@pytest.mark.filterwarnings("ignore:X has no value in column 'k'|.*beyond the training rows")
def test_a_type_without_levels_has_no_required_one(numbers):
    X, y = numbers
    X = X.assign(k=pd.Categorical([None] * len(X), [], ordered=True))
    model = GCMClassifier(**{**SMALL, "monotonic_cst": {"k": 1}}).fit(X, y)
    assert model.required(X[:3], "k", 0.5)["required"].isna().all()


@pytest.mark.filterwarnings("ignore:.*lottery.* never")
def test_many_levels_are_read_by_mean_outcomes_of_other_rows(tmp_path):
    """A row's own outcome is not among them: noise would be learned by heart."""
    rng = np.random.default_rng(0)
    level, kinds = rng.integers(0, 300, 3000), rng.normal(size=300)
    names, new = (np.array([f"shop {at}" for at in levels]) for levels in (level, range(300)))
    X = pd.DataFrame({"shop": names, "price": rng.random(3000), "lottery": names[::-1]})
    truth = 1.0 / (1.0 + np.exp(-2.0 * kinds))
    y = rng.random(3000) < truth[level]
    model = GCMClassifier(monotonic_cst={"price": 1}).fit(X, y)
    rows = pd.DataFrame({"shop": new, "price": 0.5, "lottery": "unseen"})
    found = model.predict_proba(rows)[:, 1]
    # Over 8 seeds .90 to .93, with a standard deviation of .01; chance has .1 +- .05 of the spread.
    assert np.corrcoef(found, truth)[0, 1] > 0.85
    chance = model.predict_proba(rows.assign(shop="shop 1", lottery=new))[:, 1]
    assert chance.std() < 0.4 * found.std()
    assert model.encoding_.columns[0].levels == []
    with pytest.raises(ValueError, match="'shop' of X had text in fit, got 7"):
        model.predict(rows.assign(shop=7.0))
    loaded = load(save(model, tmp_path / "model"))
    assert np.array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
