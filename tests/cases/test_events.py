"""Events and times: in any form that says what it is, and otherwise an error."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.model_selection import cross_val_score, train_test_split
from target_rows import CAME, ROWS, SMALL, TIME, TIMES, X, masked, objects, structured

from pyro_gcm.data import SurvivalTimes
from pyro_gcm.estimators import GCMSurvival
from pyro_gcm.estimators.event_times import event_times

EVENTS = {
    "a pair": (CAME, TIME),
    "numbers": (CAME * 1, TIME),
    "decimal numbers": (CAME * 1.0, TIME),
    "a list": (CAME.tolist(), TIME.tolist()),
    "the time first": [TIME, CAME * 1],
    "objects": (objects(CAME), objects(TIME)),
    "numbers as objects": (objects(CAME * 1), objects(map(Decimal, TIME.tolist()))),
    "tensors": (torch.tensor(CAME), torch.tensor(TIME)),
    "masked, and nothing hidden": (np.ma.MaskedArray(CAME), np.ma.MaskedArray(TIME)),
    "a column stack": np.column_stack([CAME, TIME]),
    "a tensor": torch.tensor(np.column_stack([CAME, TIME])),
    "entries": np.column_stack([CAME, TIME, np.zeros(ROWS)]),
    "structured": structured(CAME),
    "structured, decimal": structured(CAME * 1.0),
    "fields in another order": structured(CAME)[["t", "death"]].copy(),
    "pandas": pd.DataFrame({"t": TIME, "death": pd.array(CAME, dtype="boolean")}),
    "polars": pl.DataFrame({"death": CAME * 1, "t": TIME}),
    "a mapping": {"t": TIME, "death": torch.tensor(CAME)},
    "Arrow": pa.table({"death": CAME, "t": TIME}),
}


def test_events_are_read_alike_in_every_form() -> None:
    for name, form in EVENTS.items():
        assert torch.equal(event_times(form).columns(), TIMES.columns()), name


def test_a_column_named_event_has_the_events_whatever_the_times_are() -> None:
    times = np.arange(ROWS) % 2 + 1.0
    named = pd.DataFrame({"time": times, "event": CAME * 1})
    wanted = SurvivalTimes.right_censored(times, CAME).columns()
    assert torch.equal(event_times(named).columns(), wanted)
    with pytest.raises(ValueError, match="one column of events, which are booleans, or 0"):
        event_times(named.rename(columns={"event": "died"}))


#: What cannot be the times of events, and what is said.
NO_EVENTS: dict[str, tuple[Any, str]] = {
    "bounds": ((TIME, 2.0 * TIME), r"bounds of times are data.SurvivalTimes\(lower, upper\)"),
    "bounds, censored": ((TIME, np.where(CAME, TIME, np.inf)), "bounds of times are data.Surv"),
    "bounds as columns": (np.stack([TIME, 2.0 * TIME, 0.0 * TIME], 1), "bounds of times are"),
    "either could be": ((CAME * 1, CAME + 1.0), "one column of events, which are booleans, or 0"),
    "two causes": (
        (np.arange(ROWS) % 3, TIME),
        r"pass y\[0\] == 2, and several causes .* got 2",
    ),
    "causes, none censored": ((CAME + 1, TIME), "where 2 alone says that it occurred"),
    "causes, by name": (
        pd.DataFrame({"t": TIME, "event": CAME + 1.0}),
        "several causes are for GCMCompetingRisks",
    ),
    "text": ((np.where(CAME, "yes", "no"), TIME), "one column of events"),
    "both booleans": ((CAME, CAME), "one column of events"),
    "no event known": ((masked(CAME), TIME), r"y\[0\] must have a value .* first in row 3"),
    "no time known": ((CAME, masked(TIME)), r"y\[1\] must have a value .* first in row 3"),
    "a time of NaN": ((CAME, [math.nan, *TIME[1:]]), "first in row 0"),
    "durations": ((CAME, pd.to_timedelta(TIME, unit="D")), r"y\[1\] has dates, times or durat"),
    "a negative time": ((CAME, [-1.0, *TIME[1:]]), "time must be at least 0, got -1 in row 0"),
    "time 0": (([True, *CAME[1:]], [0.0, *TIME[1:]]), "time must be above 0 where the event occ"),
    "an infinite time": ((CAME, [math.inf, *TIME[1:]]), "time must be finite, got inf in row 0"),
    "one column": (TIME, "y must be SurvivalTimes"),
    "three columns": (pd.DataFrame({"a": CAME, "b": TIME, "c": TIME}), "y must have a column of"),
    "nothing above 0": ((np.zeros(ROWS, bool), np.zeros(ROWS)), "y must have a time above 0"),
    "a word": ("times", "y must be SurvivalTimes"),
}


def test_what_does_not_say_when_events_came_is_refused() -> None:
    for y, message in NO_EVENTS.values():
        with pytest.raises((TypeError, ValueError), match=message):
            GCMSurvival(**SMALL).fit(X, y)


def test_survival_times_are_an_array_of_rows() -> None:
    lower = TIMES.lower
    rows = {
        "a slice": slice(3, 9),
        "backwards": slice(None, None, -1),
        "a mask": CAME,
        "a mask of pandas": pd.Series(CAME),
        "a mask of torch": torch.tensor(CAME),
        "integers": [5, -1, 5],
        "an integer": 7,
        "with an ellipsis": (np.arange(4), ...),
    }
    for name, chosen in rows.items():
        wanted = lower.numpy()[np.asarray(chosen) if name.startswith("a mask") else chosen]
        assert TIMES[chosen].lower.tolist() == np.atleast_1d(wanted).tolist(), name
    assert (len(TIMES), TIMES.shape, TIMES.ndim) == (ROWS, (ROWS,), 1)
    for wrong in (ROWS, CAME[:-1], (slice(None), None)):
        with pytest.raises(IndexError):
            TIMES[wrong]
    with pytest.raises(TypeError, match="cannot be iterated over"):
        _, _ = TIMES


def test_survival_times_are_split_and_cross_validated() -> None:
    model = GCMSurvival(monotonic_cst={"debt": 1}, **SMALL)
    X_train, _, y_train, y_test = train_test_split(X, TIMES, random_state=0)
    assert (len(y_train), len(y_test)) == (45, 15)
    reference = model.fit(X_train, y_train).model_.response.reference
    assert torch.equal(reference, y_train.lower.median())
    ours = cross_val_score(model, X, TIMES, cv=3, error_score="raise")
    of_arrays = cross_val_score(model, X, structured(CAME), cv=3, error_score="raise")
    assert (ours == of_arrays).all()
