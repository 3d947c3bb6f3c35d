"""What was once read in another way than it was meant, or failed with an unclear error."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from loans import loans

from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier, GCMRegressor

DIRECTIONS = {"income": -1, "debt": 1}
OPTIONS = {"monotonic_cst": DIRECTIONS, "epochs": 2, "hidden": 8, "members": 2}


@pytest.fixture(scope="module")
def numbers():
    X, y = loans(80)
    return X[["income", "debt"]].copy(), y


@pytest.fixture(scope="module")
def model(numbers):
    return GCMClassifier(**OPTIONS).fit(*numbers)


def test_directions_are_never_read_by_the_wrong_name(numbers):
    X, y = numbers
    by_position = pd.Series([-1, 1])
    model = GCMClassifier(**{**OPTIONS, "monotonic_cst": by_position}).fit(X, y)
    assert [column.sign for column in model.encoding_.columns] == [-1, 1]
    swapped = X.set_axis([1, 0], axis=1)  # the names of columns are text, and these two "1" and "0"
    model = GCMClassifier(**{**OPTIONS, "monotonic_cst": {0: 1}}).fit(swapped, y)
    assert [column.sign for column in model.encoding_.columns] == [0, 1]


def test_columns_without_a_type_are_missing(model, numbers):
    X = numbers[0][:3]
    missing = model.predict_proba(X.assign(income=np.nan))
    of_polars = pl.DataFrame({"income": [None] * 3, "debt": X["debt"].to_numpy()})
    assert np.array_equal(model.predict_proba(of_polars), missing)
    of_arrow = pa.table({"income": pa.nulls(3), "debt": X["debt"].to_numpy()})
    assert np.array_equal(model.predict_proba(of_arrow), missing)


@pytest.mark.filterwarnings("ignore:.*beyond the training rows|X does not have valid feature names")
def test_values_are_required_of_lists(model, numbers):
    rows = numbers[0][:3]
    of_lists = model.required(rows.to_numpy().tolist(), "debt", 0.5)
    assert of_lists.equals(model.required(rows, "debt", 0.5).reset_index(drop=True))
    assert model.predict_bands(rows, level=np.float32(0.5)).level == 0.5


def test_a_curve_does_not_hide_a_column_of_its_own(numbers):
    X, y = numbers
    X = X.rename(columns={"debt": "lower"})
    model = GCMClassifier(**{**OPTIONS, "monotonic_cst": {"lower": 1}}).fit(X, y)
    with pytest.raises(ValueError, match="column 'lower' has the name of a column of the result"):
        model.response_curve(X, "lower")
    assert list(model.response_curve(X, 1)) == ["1", "prediction", "lower", "upper"]


def test_outcomes_that_float32_cannot_tell_apart(numbers):
    X, _ = numbers
    y = np.linspace(1.0, 50.0, len(X))
    for size in (1e-110, 1e110):
        with pytest.raises(ValueError, match="y must have sizes and differences from 1e-100 to"):
            GCMRegressor(**OPTIONS).fit(X, size * y)
    near = GCMRegressor(**OPTIONS).fit(X, y)
    far = GCMRegressor(**OPTIONS).fit(X, 1e10 + y)
    for ask in (lambda m: m.predict(X[:9]), lambda m: m.predict_interval(X[:9])):
        np.testing.assert_allclose(ask(far) - 1e10, ask(near), rtol=1e-3, atol=1e-2)


@pytest.mark.long(keep=0)
def test_an_audit_finds_directions_of_positions_by_name(numbers):
    X, y = numbers
    model = GCMClassifier(**{**OPTIONS, "monotonic_cst": [-1, 1]}).fit(X, y)
    options = {"pairs": 300, "progress": False}
    assert audit_table(model, X[["debt", "income"]], **options).rate == 0.0
    of_array = GCMClassifier(**{**OPTIONS, "monotonic_cst": [-1, 1]}).fit(X.to_numpy(), y)
    assert audit_table(of_array, X.set_axis([0, 1], axis=1), **options).rate == 0.0
    with pytest.raises(ValueError, match=r"two values at least .* columns \['income', 'debt'\]"):
        audit_table(model, X[:1], **options)


def test_a_fit_that_fails_leaves_the_last_one(numbers):
    X, y = numbers
    model = GCMClassifier(**OPTIONS).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="two classes"):
        model.fit(X[["debt", "income"]], ["no"] * len(X))
    assert list(model.feature_names_in_) == ["income", "debt"]
    assert np.array_equal(model.predict_proba(X), before)


@pytest.mark.filterwarnings("error")
def test_certain_outcomes_are_explained_without_warnings(numbers):
    X, _ = numbers
    model = GCMRegressor(**OPTIONS).fit(X, np.linspace(0.0, 1.0, len(X)))
    assert (model.explain(X, above=1e6)["outcome"] == 0).all()
    assert (model.explain(X, above=-1e6)["outcome"] == 1).all()


@pytest.mark.filterwarnings("ignore:X has no value in column 'k'")
def test_a_type_without_levels_has_no_required_one(numbers):
    X, y = numbers
    X = X.assign(k=pd.Categorical([None] * len(X), [], ordered=True))
    model = GCMClassifier(**{**OPTIONS, "monotonic_cst": {"k": 1}}).fit(X, y)
    with pytest.raises(ValueError, match="column 'k' has a type without levels"):
        model.required(X, "k", 0.5)
