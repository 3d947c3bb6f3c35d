"""Random tables: a right result, or an error that names the column."""

import warnings

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyro_gcm.estimators import GCMClassifier

ROWS = 24
NUMBERS = st.one_of(
    st.floats(-1e6, 1e6, width=32),
    st.sampled_from([0.0, 1.0, 1e-310, 1e300, -1e300, 1.7e308, 5e-324]),
)
#: Kinds of columns: strategies of values, dtypes, and whether the kind can be constrained.
KINDS = {
    "float": (NUMBERS, ["float64", "float32"], True),
    "nullable": (st.one_of(NUMBERS, st.just(pd.NA)), ["Float64"], True),
    "holes": (st.one_of(NUMBERS, st.just(np.nan)), ["float64"], True),
    "integer": (st.integers(-(2**62), 2**62), ["int64", "object", "Int64"], True),
    "flag": (st.booleans(), ["bool", "boolean", "object"], True),
    "constant": (st.just(3.0), ["float64"], True),
    "empty": (st.just(None), ["object", "float64"], True),
    "text": (st.sampled_from(["", "a", "b", "é"]), ["object", "string", "category"], False),
    "level": (st.integers(0, 30), ["category"], False),
    "time": (st.just(pd.Timestamp("2024-01-01")), ["datetime64[ns]"], False),
    "mixed": (st.sampled_from([1, "a"]), ["object"], False),
    "infinite": (st.sampled_from([1.0, np.inf]), ["float64"], True),
}
WRONG = {
    "time": "dates, times or durations",
    "mixed": "mixes text and numbers",
    "infinite": "is infinite in row",
}


@st.composite
def columns(draw):
    """A column of a random kind: its kind, its values, and its direction."""
    kind = draw(st.sampled_from(list(KINDS)))
    values, dtypes, constrained = KINDS[kind]
    series = pd.Series(draw(st.lists(values, min_size=ROWS, max_size=ROWS)), dtype="object")
    with np.errstate(over="ignore"):
        series = series.astype(draw(st.sampled_from(dtypes)))
    return kind, series, draw(st.sampled_from([-1, 0, 1])) if constrained else 0


@st.composite
def tables(draw):
    """A table with a few columns, some of them twice, and their directions."""
    drawn = draw(st.lists(columns(), min_size=1, max_size=4))
    if draw(st.booleans()):
        drawn.append(drawn[0])
    frame = pd.DataFrame({f"c{j}": series for j, (_, series, _) in enumerate(drawn)})
    return frame, [kind for kind, *_ in drawn], [sign for *_, sign in drawn]


def check(frame, kinds, signs):
    y = np.arange(ROWS) % 2
    model = GCMClassifier(monotonic_cst=signs, epochs=1, members=2, hidden=4)
    try:
        model.fit(frame, y)
    except (TypeError, ValueError) as error:
        wrong = [f"c{j}" for j, kind in enumerate(kinds) if kind in WRONG]
        infinite = [name for name in frame if frame[name].dtype.kind == "f"]
        infinite = [name for name in infinite if np.isinf(frame[name]).any()]
        named = [name for name in {*wrong, *infinite} if f"'{name}'" in str(error)]
        if not named:
            raise AssertionError(f"{kinds}: {error} names no column") from error
        return
    for j, kind in enumerate(kinds):
        if kind in ("time",) or (kind in WRONG and frame.iloc[:, j].nunique() > 1):
            raise AssertionError(f"{kind} in column {j} was not refused")
    p = model.predict_proba(frame)
    assert np.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()
    assert np.array_equal(model.predict_proba(frame[frame.columns[::-1]]), p)
    assert np.array_equal(model.predict_proba(frame[:1]), p[:1])
    for j, sign in enumerate(signs):
        if not sign or frame.iloc[:, j].isna().any() or frame.dtypes.iloc[j] == "object":
            continue
        order = np.argsort(frame.iloc[:, j].to_numpy(dtype=np.float64))
        row = pd.concat([frame[:1]] * ROWS, ignore_index=True)
        row[f"c{j}"] = frame[f"c{j}"].iloc[order].to_numpy()
        assert (sign * np.diff(model.predict_proba(row)[:, 1]) >= 0).all()


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("seed", range(5))
def test_a_random_table_gives_a_result_or_an_error_that_names_the_column(seed):
    @hypothesis.seed(seed)
    @settings(
        max_examples=250, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(tables())
    def run(table):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(*table)

    run()
