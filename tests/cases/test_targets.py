"""What comes as y: labels, levels and numbers of any type, and the positive class."""

from __future__ import annotations

import datetime
import functools
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from target_rows import CAME, LATE, QUICK, ROWS, SMALL, TIME, TIMES, X, masked, objects

import pyro_gcm
from pyro_gcm import GCM, fit_members
from pyro_gcm.audit import audit_table
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.estimators import GCMClassifier, GCMOrdinal, GCMRegressor, GCMSurvival, IGCMClassifier
from pyro_gcm.estimators.kinds import predictions
from pyro_gcm.models.members import MemberSettings

LABELS: dict[str, tuple[Any, list[Any]]] = {
    "booleans as objects": (objects(LATE.tolist()), [False, True]),
    "numbers as objects": (objects(LATE * 1), [0, 1]),
    "a mix of numbers": (objects([1.0 if late else 0 for late in LATE]), [0.0, 1.0]),
    "a gap that is gone": (pd.Series([None, *LATE], dtype=object).dropna(), [False, True]),
    "nullable": (pd.Series(LATE, dtype="boolean"), [False, True]),
    "a tensor": (torch.tensor(LATE), [False, True]),
    "whole numbers of a tensor": (torch.tensor(LATE * 1), [0, 1]),
    "polars": (pl.Series(LATE.tolist()), [False, True]),
    "Arrow": (pa.chunked_array([pa.array(np.where(LATE, "yes", "no"))]), ["no", "yes"]),
    "a category": (pd.Categorical(np.where(LATE, "yes", "no"), ["yes", "no"]), ["no", "yes"]),
    "masked, and nothing hidden": (np.ma.MaskedArray(LATE * 1), [0, 1]),
}


@functools.lru_cache(typed=True)  # True is no 1
def probabilities(*classes: Any) -> Any:
    """Of an estimator that is fitted to labels in a plain array."""
    plain = np.array(classes)[LATE * 1]
    return GCMClassifier(**SMALL).fit(X, plain).predict_proba(X)


def test_labels_are_what_their_values_are() -> None:
    for form, (y, classes) in LABELS.items():
        model = GCMClassifier(**SMALL).fit(X, y)
        assert model.classes_.tolist() == classes, form
        assert [*map(type, model.classes_.tolist())] == [*map(type, classes)], form
        plain = np.array(classes)[LATE * 1]
        assert model.score(X, y) == (model.predict(X) == plain).mean()
        assert (model.predict_proba(X) == probabilities(*classes)).all(), form


DAYS = pd.to_timedelta(np.arange(ROWS), unit="D")
#: What no y may have: the estimator, y, and what is said.
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "durations": (GCMRegressor, DAYS, "y has dates, times or durations"),
    "dates": (GCMRegressor, pd.Timestamp("2020") + DAYS, "y has dates, times or durations"),
    "dates as objects": (GCMClassifier, [datetime.date(2020, 1, 1)] * ROWS, "y has dates, times"),
    "periods": (GCMOrdinal, pd.period_range("2020", periods=ROWS), "y has dates, times or"),
    "durations of polars": (GCMRegressor, pl.Series(DAYS.to_pytimedelta().tolist()), "y has dates"),
    "text": (GCMRegressor, ["1"] * ROWS, "y must have numbers, and has text, such as '1'"),
    "a mix": (GCMClassifier, ["yes", 1] * (ROWS // 2), "y mixes text and int, such as 1"),
    "NaN among text": (GCMClassifier, ["a", "b", math.nan] * 20, "and 20 of 60 are missing, the"),
    "hidden": (GCMRegressor, masked(TIME), "y must have a value in every row.* first in row 3"),
    "hidden labels": (GCMClassifier, masked(LATE * 1), "1 of 60 are missing, the first in row 3"),
    "hidden levels": (GCMOrdinal, masked(np.arange(ROWS) % 3), "missing, the first in row 3"),
    "missing": (
        GCMOrdinal,
        pd.array([1, 2, None] * 20),
        "20 of 60 are missing, the first in row 2",
    ),
    "infinite": (GCMRegressor, [math.inf, *TIME[1:]], "y must be finite, and is infinite in row 0"),
    "sets": (GCMClassifier, objects([{1}] * ROWS), "y must have labels of text"),
    "times": (GCMRegressor, TIMES, "y must have one value a row, got SurvivalTimes"),
    "complex": (GCMRegressor, TIME + 1j, "Complex data not supported"),
}


def test_what_no_model_is_fitted_to_is_refused_in_one_sentence() -> None:
    for kind, y, message in REFUSED.values():
        with pytest.raises((TypeError, ValueError), match=message):
            kind(**SMALL).fit(X, y)


def test_what_a_masked_array_hides_is_missing_in_weights_and_times() -> None:
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        GCMRegressor(**SMALL).fit(X, TIME, sample_weight=masked(np.ones(ROWS)))
    with pytest.raises(ValueError, match=r"y must have no NaN.* in row 3"):
        SurvivalTimes(masked(TIME), TIME)


def test_whole_numbers_of_any_size_stay_apart() -> None:
    levels = [2**60, 2**60 + 1, 2**60 + 2]
    y = pd.Series(levels * (ROWS // 3))
    for given in (y, y.astype("Int64"), pl.Series(y.to_list()), torch.tensor(y.to_numpy())):
        for options in ({}, {"levels": levels}):
            model = GCMOrdinal(**SMALL, **options).fit(X, given)
            assert model.classes_.tolist() == levels
    with pytest.raises(ValueError, match=f"y must have labels among levels.* got {levels[1]}"):
        GCMOrdinal(**SMALL, levels=levels[::2]).fit(X, y)


WORDS = np.where(LATE, "yes", "no")


@pytest.mark.parametrize("kind", [GCMClassifier, IGCMClassifier])
def test_the_positive_class_is_the_event_everywhere(kind: Any, tmp_path: Path) -> None:
    options = {**(SMALL if kind is GCMClassifier else QUICK), "monotonic_cst": {"debt": -1}}
    model = kind(**{**options, "epochs": 5}, positive="no").fit(X, WORDS)
    same = kind(**{**options, "epochs": 5}).fit(X, WORDS == "no")  # True is the event
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.predict_proba(X) == same.predict_proba(X)[:, ::-1]).all()
    assert ((model.predict(X) == "no") == same.predict(X)).all()
    assert model.score(X, WORDS) == same.score(X, WORDS == "no")
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "model"))
    event = model.predict_proba(X)[:, model.event_column_]
    for each in (model, loaded):
        found = predictions(each, X)
        assert (found["probability"] == event).all()
        assert (found["class"] == model.predict(X)).all()
    # The metrics of scikit-learn take the columns in sorted order.
    auc, other = (
        cross_val_score(one, X, y, cv=2, scoring="roc_auc").mean()
        for one, y in ((model, WORDS), (same, WORDS == "no"))
    )
    assert auc == pytest.approx(other)
    if kind is GCMClassifier:
        for predictor in (Pipeline([("as it is", "passthrough"), ("model", model)]), model):
            audit = audit_table(predictor, X, {"debt": -1}, pairs=9, progress=False)
            assert audit.passed
        assert audit.summary().splitlines()[0].endswith("; event: no")
        assert (model.explain(X)["probability"].to_numpy() == event).all()
    with pytest.raises(ValueError, match=r"positive must be one of the classes \['no', 'yes'\]"):
        kind(**options, positive="maybe").fit(X, WORDS)


#: Tables that say little: the estimator, X, y and the one warning.
FLAT: dict[str, tuple[Any, Any, Any, str]] = {
    "y": (GCMRegressor, X, np.full(ROWS, 3.0), "y has the same value in all rows, 3"),
    "no event": (GCMSurvival, X, (CAME & False, TIME), "y has no event: all rows are censored"),
    "times": (GCMSurvival, X, (CAME | True, TIME * 0 + 2), "y has the same time in all rows, 2"),
    "a column": (GCMRegressor, X.assign(job=None), TIME, "X has no value in column 'job'"),
    "a direction": (GCMRegressor, X.assign(debt=np.nan), TIME, "X has no value in column 'debt'"),
}


def test_what_says_little_gets_one_warning_and_a_model() -> None:
    for kind, table, y, message in FLAT.values():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = kind(**SMALL, monotonic_cst={"debt": 1}).fit(table, y)
        assert [str(each.message)[: len(message)] for each in caught] == [message]
        assert caught[0].filename == __file__
        assert np.isfinite(model.predict(table)).all()


def test_an_outcome_that_says_little_gets_one_warning_from_every_way_to_fit() -> None:
    g = torch.Generator().manual_seed(0)
    x, r, y = torch.randn(120, 2, generator=g), torch.rand(120, 1, generator=g), torch.ones(120)
    quick: dict[str, Any] = {"epochs": 1, "progress": False}
    of_table = replace(MemberSettings.for_table(120, 2, 1), members=2, width=4, epochs=1)
    halves = [column.split(60) for column in (x, r, y)]
    even = torch.arange(120) % 2 == 0

    def of_times(time: torch.Tensor, came: torch.Tensor) -> Any:
        times = SurvivalTimes.right_censored(time, came)
        return pyro_gcm.fit(GCM(2, 1, response="survival"), x, r, times, **quick)

    one = "y has the same value in all rows, 1: there is nothing to learn"
    same = "y has the same time in all rows, 2: there is nothing to learn"
    none = "y has no event: all rows are censored, and tell little of when events come"
    for way, run, told in (
        ("fit", lambda: pyro_gcm.fit(GCM(2, 1), x, r, y, **quick), [one]),
        ("stream", lambda: pyro_gcm.fit(GCM(2, 1), [*zip(*halves, strict=True)], **quick), [one]),
        ("members", lambda: fit_members(x, r, y, settings=of_table, progress=False), [one]),
        ("no event", lambda: of_times(1.0 + even, even & False), [none]),
        ("one time", lambda: of_times(2.0 * y, y > 0), [same]),
        ("one time, some censored", lambda: of_times(2.0 * y, even), []),
        ("two times", lambda: of_times(1.0 + even, y > 0), []),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run()
        assert [str(each.message) for each in caught] == told, way


# The command line


def test_a_column_that_has_no_value_gets_a_warning_and_a_model(fit: Any) -> None:
    said = fit(X.assign(debt=None, late=WORDS), "--target=late", "--quiet", "--positive=yes").err
    assert said.count("\n") == 1
    assert "warning: X has no value in column 'debt'" in said
    done = fit(X.assign(y=3), "--target=y", code=2)
    assert "; --kind regressor fits any numbers" in done.err


@pytest.mark.parametrize("value", [0.0, -1.0])
@pytest.mark.parametrize("share", [[], ["--test-share=0.5"], ["--test-share=0.5", "--seed=5"]])
def test_a_wrong_time_is_named_by_its_row(value: float, share: list[str], fit: Any) -> None:
    table = X.assign(time=TIME, event=1)
    table.loc[40, "time"] = value
    said = fit(table, "--target=time", "--event=event", "--quiet", *share, code=2).err
    assert said.count("\n") == 1
    assert f"--target 'time': time must be {'at least' if value else 'above'} 0" in said
    assert said.endswith("in row 41; row 1 is the first below the header\n")
    assert not Path("model").exists()


def test_levels_may_be_numbers_that_no_row_has(fit: Any) -> None:
    table = X.assign(rating=np.digitize(X["debt"], [10, 20, 30]) + 2**60)
    levels = [2**60 + at for at in range(5)]
    absent = table[table["rating"] != levels[2]]
    fit(absent, "--target=rating", f"--levels={','.join(map(str, levels))}")
    assert pyro_gcm.load("model").classes_.tolist() == levels
    for wrong in ("x", "nan"):
        done = fit(table, "--target=rating", f"--levels=1,{wrong}", code=2)
        assert f"--levels must be values of 'rating', got '{wrong}'" in done.err


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(
    ("values", "positive"), [(["no", "yes"], "no"), ([1, 2], "1"), ([False, True], "false")]
)
def test_a_positive_class_of_the_command_line_is_that_of_python(
    values: list[Any], positive: str, fit: Any, run: Any
) -> None:
    fit(X.assign(late=np.array(values)[LATE * 1]), "--target=late", f"--positive={positive}")
    run("predict", "model", "data.csv", "--out=found.parquet")
    model, found = pyro_gcm.load("model"), pd.read_parquet("found.parquet")
    assert model.positive == values[0]
    assert found["class"].tolist() == model.predict(X).tolist()
    assert (found["probability"] == model.predict_proba(X)[:, 0]).all()
    run("report", "model", "data.csv", "--pairs=9", "--out=r.html")
    shown = Path("r.html").read_text(encoding="utf-8")
    assert f"<h1>Report on the probability that “late” is “{values[0]}”</h1>" in shown


def test_the_event_is_said_and_warned_of_where_text_leaves_it_to_the_order(fit: Any) -> None:
    table = X.assign(late=WORDS)
    share = f"{100 * LATE.mean():.1f} %"
    about = "raising a column with direction + raises its probability"
    silent = fit(table, "--target=late", "--quiet", "--positive=yes")
    assert f"event: late = yes ({share}); {about}\n" in silent.out
    assert silent.err == ""
    told = fit(table, "--target=late", "--quiet")
    assert f"event: late = yes ({share}); {about}\n" in told.out
    assert "directions are about late = yes, the last label in order: say so by" in told.err
    assert "--positive yes, or --positive no for the other one" in told.err
    turned = fit(table.assign(debt=-X["debt"]), "--target=late", "--quiet", "--positive=no")
    assert f"event: late = no ({100 - 100 * LATE.mean():.1f} %); " in turned.out
    for numbers in (table.assign(late=LATE), table.assign(late=LATE * 1)):
        assert fit(numbers, "--target=late", "--quiet").err == ""


def test_causes_are_not_read_as_events(fit: Any) -> None:
    done = fit(X.assign(time=TIME, event=CAME + 1), "--target=time", "--event=event", code=2)
    assert "--event 'event' must have 1 (the event occurred) and 0 (it" in done.err


def test_levels_of_a_frame_of_one_column_keep_their_order() -> None:
    levels = ["low", "mid", "high"]
    grades = np.resize(levels, ROWS).tolist()
    for form in (
        pd.DataFrame({"y": pd.Categorical(grades, levels, ordered=True)}),
        pl.DataFrame({"y": pl.Series(grades, dtype=pl.Enum(levels))}),
        pd.Categorical(grades, levels, ordered=True),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataConversionWarning)  # of a column, not a vector
            fitted = GCMOrdinal(**SMALL).fit(X, form)
        assert fitted.classes_.tolist() == levels, type(form)
