"""A scorer gives the estimator's predictions, in the kind of the batch, in any process."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from loans import loans
from sklearn.exceptions import NotFittedError

from pyro_gcm.estimators import GCMClassifier, GCMOrdinal, GCMRegressor
from pyro_gcm.estimators import scorer as of_scorer
from pyro_gcm.estimators.kinds import BLOCK

SMALL = {"members": 2, "epochs": 1}


def table(rows: int = 90, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Numbers, text and booleans with missing values, and yes or no."""
    X, y = loans(rows, seed)
    return X.drop(columns="grade").assign(owner=X["years"] > 14), y


@cache
def classifier() -> GCMClassifier:
    return GCMClassifier(monotonic_cst={"debt": 1, "income": -1}, **SMALL).fit(*table())


def new_rows() -> pd.DataFrame:
    """Rows that fit did not see, with an unseen job, another order of columns, and more of them."""
    X = table(40, seed=1)[0].assign(id=np.arange(40) + 100, note="x")
    X.loc[5, "job"] = "queen"
    return X[["note", "owner", "years", "debt", "id", "income", "job"]].sample(
        frac=1, random_state=0
    )


KINDS = {
    "pandas": lambda X: X,
    "polars": lambda X: pl.from_pandas(X.reset_index(drop=True)),
    "Arrow table": lambda X: pa.Table.from_pandas(X, preserve_index=False),
    "Arrow batch": lambda X: pa.RecordBatch.from_pandas(X, preserve_index=False),
    "arrays by name": lambda X: {name: X[name].to_numpy() for name in X},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_batch_gives_the_same_bits(kind: str) -> None:
    X, model = new_rows(), classifier()
    batch = KINDS[kind](X)
    found = model.scorer(keep=["id"], level=0.8)(batch)
    assert type(found) is type(batch)
    shown = found.to_pandas() if hasattr(found, "to_pandas") else pd.DataFrame(found)
    assert list(shown) == ["id", "probability", "class", "lower", "upper"]
    read = X[["income", "debt", "years", "job", "owner"]]
    assert (shown["probability"].to_numpy() == model.predict_proba(read)[:, 1]).all()
    assert (shown["class"].to_numpy() == model.predict(read)).all()
    assert (shown["upper"].to_numpy() == model.predict_bands(read, 0.8).upper).all()
    assert (shown["id"].to_numpy() == X["id"]).all()
    if kind == "pandas":
        assert (found.index == X.index).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_rows_has_the_same_columns_and_types(kind: str) -> None:
    score = classifier().scorer(keep=["id"])
    full, empty = score(KINDS[kind](new_rows())), score(KINDS[kind](new_rows()[:0]))
    assert type(empty) is type(full)
    if kind.startswith("Arrow"):
        assert empty.num_rows == 0
        assert empty.schema.equals(full.schema)
    elif kind == "polars":
        assert empty.shape == (0, 3)
        assert empty.schema == full.schema
    else:
        assert list(empty) == list(full)
        assert [len(empty[name]) for name in empty] == [0, 0, 0]


def test_a_row_is_scored_alike_in_any_batch() -> None:
    X = pd.concat([new_rows()] * (BLOCK // 40 + 2), ignore_index=True)
    score = classifier().scorer()
    whole = score(X)["probability"].to_numpy()
    assert len(whole) > BLOCK
    assert (whole[:40] == whole[40:80]).all()
    assert (whole[-40:] == whole[:40]).all()
    assert [score(X[i : i + 1])["probability"].iloc[0] for i in range(5)] == whole[:5].tolist()


def test_batches_come_one_after_the_other() -> None:
    score, batch = classifier().scorer(), KINDS["Arrow batch"](new_rows())
    parts = list(score.batches(iter([batch.slice(0, 10), batch.slice(10)])))
    assert pa.Table.from_batches(parts).equals(
        pa.Table.from_batches([score(batch)]).combine_chunks()
    )


def scored(score: Any, batch: Any) -> tuple[Any, int]:
    """The result, and how many estimators this process has loaded."""
    return score(batch), of_scorer._loaded.cache_info().currsize


@pytest.mark.long(keep=0)
def test_a_worker_loads_the_estimator_once_and_gives_the_same_bits() -> None:
    score, batch = classifier().scorer(), KINDS["Arrow batch"](new_rows())
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        results = [pool.submit(scored, score, batch).result() for _ in range(3)]
    assert [count for _, count in results] == [1, 1, 1]
    assert all(found.equals(score(batch)) for found, _ in results)


def test_it_holds_what_was_fitted_then() -> None:
    X, y = table()
    model = GCMClassifier(monotonic_cst={"debt": 1}, **SMALL).fit(X, y)
    score = model.scorer()
    before = score(X)
    again = pickle.loads(pickle.dumps(score))
    model.fit(X, y[::-1])
    assert score(X).equals(before)
    of_scorer._loaded.cache_clear()
    assert again(X).equals(before)
    assert not model.scorer()(X).equals(before)
    assert of_scorer._loaded.cache_info().maxsize == 16  # no more are kept


def test_the_schema_of_spark_names_every_column_with_its_type() -> None:
    assert classifier().scorer().ddl == "`probability` double, `class` string"
    X, _ = table()
    levels = X["years"] % 3
    score = GCMOrdinal(**SMALL).fit(X, levels).scorer()
    assert score.kinds["level"] == levels.to_numpy().dtype
    assert score.ddl.endswith("`level` bigint, `median` bigint, `mean_place` double")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": ["class"]}, "keep has 'class', which the result has already"),
        ({"keep": ["id", "id"]}, "keep has 'id', which the result has already"),
        ({"quantiles": [0.5]}, "quantiles are of numbers and times, and a GCMClassifier has none"),
        ({"quantiles": [1.5]}, "quantiles must be numbers in .0, 1., got 1.5"),
        ({"quantiles": 0.5}, "quantiles must be a sequence of numbers, got 0.5"),
        ({"quantiles": [0.5, 0.5]}, "must differ"),
        ({"level": 1.0}, "level must be a number in .0, 1., got 1.0"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        classifier().scorer(**options)


def test_wrong_batches_and_estimators_are_refused() -> None:
    score, X = classifier().scorer(keep=["id"]), new_rows()
    for batch, message in (
        (X[["income", "job"]], r"lacks the columns \['debt', .*'id'\]; it has \['income', 'job'"),
        ([1, 2], "batch must be an Arrow .* got list"),
        (X.assign(debt="two"), "'debt' of X had numbers in fit, got text"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            score(batch)
    with pytest.raises(NotFittedError):
        GCMClassifier().scorer()
    array = np.arange(60.0).reshape(30, 2)
    unnamed = GCMRegressor(**SMALL).fit(array, array.sum(1))
    with pytest.raises(ValueError, match="fitted to a DataFrame, whose columns have names"):
        unnamed.scorer()
