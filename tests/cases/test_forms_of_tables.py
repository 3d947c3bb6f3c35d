"""One reader of tables: the same rows give the same predictions in whatever form they come."""

import datetime
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from loans import loans

from pyro_gcm._utils.validation import as_tensor
from pyro_gcm.audit import audit_table
from pyro_gcm.data.tables import read_table
from pyro_gcm.estimators import GCMClassifier

FAST = {"epochs": 2, "members": 2, "hidden": 8}
CONSTRAINTS = {"income": -1, "debt": 1}


def rows() -> tuple[pd.DataFrame, np.ndarray]:
    """80 rows without gaps."""
    X, y = loans(120)
    whole = X.notna().all(axis=1)
    X = X[whole][:80].drop(columns="grade").round({"income": 0, "debt": 1})
    return X.reset_index(drop=True), y[whole][:80]


@pytest.fixture(scope="module")
def model() -> GCMClassifier:
    return GCMClassifier(monotonic_cst=CONSTRAINTS, **FAST).fit(*rows())


def test_names_match_in_any_normal_form_of_unicode() -> None:
    X, y = rows()
    fitted = GCMClassifier(monotonic_cst={"d\u00e9bit": 1}, **FAST)
    composed, apart = (X.rename(columns={"debt": name}) for name in ("d\u00e9bit", "de\u0301bit"))
    fitted.fit(apart, y)
    assert [code.sign for code in fitted.encoding_.columns] == [0, 1, 0, 0]
    assert np.array_equal(fitted.predict_proba(composed), fitted.predict_proba(apart))
    assert fitted.required(composed[:3], "d\u00e9bit", 0.5).shape == (3, 4)
    assert audit_table(fitted, composed, pairs=9, progress=False).passed
    with pytest.raises(ValueError, match="unseen at fit time:\n- d\u00e9bit"):
        fitted.predict(composed.assign(**{"de\u0301bit": 1.0}))  # of which both cannot be one


OTHER_ORDER = ["job", "debt", "years", "income"]
FORMS = {
    "records": lambda X: X.to_dict("records"),
    "pandas": lambda X: X,
    "pandas, an index": lambda X: X.set_axis(np.arange(len(X)) % 7),
    "polars": pl.from_pandas,
    "Arrow table": lambda X: pa.Table.from_pandas(X, preserve_index=False),
    "Arrow record batch": lambda X: pa.RecordBatch.from_pandas(X, preserve_index=False),
    "Arrow, several chunks": lambda X: pa.concat_tables(
        [pa.Table.from_pandas(part, preserve_index=False) for part in (X[:30], X[30:])]
    ),
    "mapping of lists": lambda X: {name: X[name].tolist() for name in X},
    "mapping of arrays": lambda X: {name: X[name].to_numpy() for name in X},
    "mapping of series": lambda X: {
        name: X[name].set_axis(np.arange(len(X)) + 10 * at) for at, name in enumerate(X)
    },
    "mapping of tensors": lambda X: {
        name: X[name].tolist() if name == "job" else torch.tensor(X[name].to_numpy()) for name in X
    },
    "mapping of polars": lambda X: {name: pl.from_pandas(X)[name] for name in X},
    "structured array": lambda X: X.astype({"job": "U9"}).to_records(index=False).view(np.ndarray),
    "objects": lambda X: X.astype(object),
    "decimals": lambda X: X.assign(debt=[Decimal(str(v)) for v in X["debt"]]),
    "fractions": lambda X: X.assign(years=[Fraction(int(v)) for v in X["years"]]),
    "nullable": lambda X: X.convert_dtypes(),
    "Arrow types of pandas": lambda X: X.convert_dtypes(dtype_backend="pyarrow"),
    "bytes": lambda X: X.assign(job=[v.encode() for v in X["job"]]),
}


def test_columns_are_found_by_name_in_every_form(model: GCMClassifier) -> None:
    X, _ = rows()
    for name, form in FORMS.items():
        found = model.predict_proba(form(X[OTHER_ORDER]))
        assert np.array_equal(found, model.predict_proba(X)), name


NAMES = {
    "integers": [10, 20, 30, 40],
    "positions": [0, 1, 2, 3],
    "several levels": pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1), ("b", 2)]),
    "dates": pd.date_range("2024-01-01", periods=4),
    "mixed": ["a", 1, None, ("b", 2)],
}


def test_names_of_any_type_are_names() -> None:
    for kind in NAMES:
        X, y = rows()
        X = X.set_axis(NAMES[kind], axis=1)
        signs = {name: sign for name, sign in zip(X.columns, (-1, 1, 0, 0), strict=True) if sign}
        fitted = GCMClassifier(monotonic_cst=signs, **FAST).fit(X, y)
        assert [code.sign for code in fitted.encoding_.columns] == [-1, 1, 0, 0], kind
        assert np.array_equal(fitted.predict_proba(X.iloc[:, ::-1]), fitted.predict_proba(X)), kind


def test_names_on_one_side_alone_are_told(model: GCMClassifier) -> None:
    X, y = rows()
    with pytest.warns(UserWarning, match="X does not have valid feature names, but GCMClassifier"):
        found = model.predict_proba(X.to_numpy())
    assert np.array_equal(found, model.predict_proba(X))
    numbers = X.drop(columns="job")
    unnamed = GCMClassifier(monotonic_cst=[-1, 1, 0], **FAST).fit(numbers.to_numpy(), y)
    with pytest.warns(UserWarning, match="GCMClassifier was fitted without feature names"):
        unnamed.predict(numbers)
    unnamed.predict(pd.DataFrame(numbers.to_numpy()))  # numbered, which is no name


def test_what_is_masked_is_missing() -> None:
    X, y = rows()
    for kind in (np.float64, np.int64, np.float32):
        values = X.drop(columns="job").to_numpy().astype(kind)
        mask = np.arange(values.size).reshape(values.shape) % 5 == 0
        masked = np.ma.masked_array(np.where(mask, 999, values).astype(kind), mask)
        absent = np.where(mask, np.nan, values.astype(np.float64))
        fitted = GCMClassifier(monotonic_cst=[-1, 1, 0], **FAST).fit(absent, y)
        assert np.array_equal(fitted.predict_proba(masked), fitted.predict_proba(absent)), kind
        assert np.array_equal(as_tensor("x", masked), as_tensor("x", absent), equal_nan=True)
        (column,) = read_table({"a": masked[:, 0]})
        assert np.array_equal(column.is_missing, mask[:, 0])


LARGE = [2**53 + 1, 2**53 + 2, 2**63 - 1]
INTEGERS = {
    "category": lambda values: pd.DataFrame({"id": pd.Categorical(values)}),
    "int64": lambda values: pd.DataFrame({"id": np.array(values)}),
    "nullable": lambda values: pd.DataFrame({"id": pd.array(values, dtype="Int64")}),
    "Arrow": lambda values: pa.table({"id": values}),
    "polars": lambda values: pl.DataFrame({"id": values}),
    "array": lambda values: np.array(values)[:, None],
}


def test_integer_levels_are_compared_as_integers() -> None:
    for name, form in INTEGERS.items():
        (column,) = read_table(form(LARGE * 2))
        assert column.as_labels().tolist() == LARGE * 2, name
        if name != "category":
            assert column.numbers.tolist() == [float(value) for value in LARGE] * 2, name


def test_numbers_beside_text_in_lists_of_rows_stay_numbers() -> None:
    X, y = rows()
    options = {"monotonic_cst": [-1, 1, 0, 0], "categorical_features": [3], **FAST}
    fitted = GCMClassifier(**options).fit(X.to_numpy().tolist(), y)
    assert [code.kind for code in fitted.encoding_.columns] == ["number"] * 3 + ["category"]


PLAIN = {
    "numbers": [[1.5, 2.0], [1, 2], [True, False], [1, None], [1.5, float("nan")], [True, 2.5]],
    "text": [["a", "b"], ["", None], ["1", "2"], ["a", float("nan")]],
    "nothing": [[None, None], [float("nan"), None]],
    "large": [[2**60 + 1, 3], [2**60 + 1, None], [2**70, 1]],
    "refused": [["a", 1.0], [1.0, float("inf")], [datetime.date(2024, 1, 2), None], [1j, 1.0]],
}


def test_plain_values_are_read_as_a_frame_of_them() -> None:
    def read(table: object) -> object:
        try:
            columns = read_table(table)
        except (TypeError, ValueError) as error:
            return type(error), str(error)
        return columns.names, [
            (c.label, c.numbers is None, c.as_labels().tolist(), c.categorical) for c in columns
        ]

    for kind, each in PLAIN.items():
        for values in each:
            table = {"a": values, 7: [1.0, 2.0]}
            records = [
                dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)
            ]
            frame = read(pd.DataFrame(table))
            assert isinstance(frame[0], type) == (kind == "refused"), values
            assert read(table) == read(records) == frame, values
            unnamed = [list(row.values()) for row in records]
            assert read(unnamed) == read(np.array(unnamed, dtype=object)), values
    partly = [{"a": 1.0}, {"b": "x", "a": 2.0}]
    assert read(partly) == read(pd.DataFrame(partly))
    for wrong in ({}, [], [{}], {"a": []}, [[]], [[1.0], [1.0, 2.0]], [{1: 2.0, "1": 2.0}], [1.0]):
        told = read(wrong)
        assert isinstance(told[0], type), wrong


def test_an_audit_reads_what_an_estimator_reads(model: GCMClassifier) -> None:
    X, _ = rows()
    for form in ("objects", "decimals", "mapping of series", "Arrow record batch", "nullable"):
        table = FORMS[form](X)
        assert audit_table(model, table, pairs=9, progress=False).passed
        assert np.array_equal(model.predict_proba(table), model.predict_proba(X))
    objects = FORMS["objects"](X)
    model.as_read(objects)
    assert set(objects.dtypes) == {np.dtype(object)}  # it is not the caller's table that changes
    fitted = GCMClassifier(**FAST, monotonic_cst={1: 1})
    numbered = X.drop(columns="job").set_axis([3, 1, 2], axis=1)
    assert audit_table(fitted.fit(numbered, rows()[1]), numbered, pairs=9, progress=False).passed


WRONG = {
    "'?' in row 7 beside 1.0 in row 0": {"debt": [*[1.0] * 7, "?", *[1.0] * 72]},
    "column 'debt' of X has dates, times or durations": {"debt": [datetime.timedelta(1)] * 80},
    "column 'when' of X has dates, times or durations": {"when": [datetime.date(2024, 1, 2)] * 80},
    "'debt' of X had numbers in fit, got text or categories, such as 'x'": {"debt": ["x"] * 80},
    "column 'job' of X had text in fit, got 1.0 in row 0": {"job": [1.0] * 80},
    "X must have a column for 'debt', got 3": {"debt": 3},
    "X must have columns of one length": {"debt": [1.0] * 3},
}


def test_a_bad_cell_is_named_with_its_row_and_column(model: GCMClassifier) -> None:
    for message, wrong in WRONG.items():
        columns = {name: column.tolist() for name, column in rows()[0].items()} | wrong
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            model.predict(columns)
    for names in (["income", "debt", "debt", "job"], ["income", 1, "1", "job"]):
        with pytest.raises(ValueError, match="X must have each column once, got '"):
            model.predict(rows()[0].set_axis(names, axis=1))


def test_text_of_which_nothing_is_left_is_told() -> None:
    X, y = rows()
    written = X.assign(income=[f"{value:,.0f}" for value in X["income"]])
    with pytest.warns(UserWarning, match="'income' of X has text .* nearly every value is rare"):
        GCMClassifier(monotonic_cst={"debt": 1}, **FAST).fit(written, y)


def test_columns_of_polars_in_a_mapping_keep_their_types() -> None:
    levels = ["low", "mid", "high"]
    grade, large = read_table(
        {"grade": pl.Series(levels, dtype=pl.Enum(levels)), "id": pl.Series([2**60 + 1, None, 3])}
    )
    assert grade.levels == tuple(levels)
    assert large.as_labels().tolist() == [2**60 + 1, None, 3]


def test_a_bad_cell_of_a_long_batch_has_its_row_there(model: GCMClassifier) -> None:
    X = pd.concat([rows()[0]] * 110, ignore_index=True)  # 8,800 rows, more than are read at once
    X.loc[8500, "debt"] = np.inf
    with pytest.raises(ValueError, match="is infinite in row 8500"):
        model.predict(X)
