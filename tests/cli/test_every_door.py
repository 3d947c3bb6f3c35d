"""Random tables come through every door alike: to the last bit, or to the same kind of error."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command_line import exact, run, written
from hypothesis import Phase
from hypothesis import strategies as st

from pyro_gcm import load
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier
from pyro_gcm.report import write_report

GRADES = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
JOBS = ["clerk", "NA", "None", "007", "a,b", 'x"y', " padded ", "line\nbreak", "é中🙂", "nan"]
INPUTS = ["amount", "count", "flag", "job", "grade"]
CAPS = {"max_examples": 3, "deadline": None, "database": None, "phases": [Phase.generate]}


def frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Rows as a table of pandas, with the types that a careful user gives its columns."""
    found = pd.DataFrame(rows, columns=INPUTS).astype({"amount": float, "job": object})
    found["count"], found["flag"] = found["count"].astype("Int64"), found["flag"].astype("boolean")
    return found.assign(grade=found["grade"].astype(GRADES))


def training(seed: int = 0) -> pd.DataFrame:
    """Rows with outcomes, of which some lack every value."""
    rng = np.random.default_rng(seed)
    columns = (
        rng.lognormal(3, 1, 120),
        rng.integers(-5, 50, 120),
        rng.random(120) < 0.5,
        rng.choice(JOBS, 120),
        rng.choice(GRADES.categories, 120),
    )
    rows = [tuple(row) for row in zip(*(c.tolist() for c in columns), strict=True)]
    rows += [(None, None, None, None, None)] * 6
    late = np.array([(row[0] or 20.0) > 20.0 for row in rows]) ^ (rng.random(126) < 0.2)
    return frame(rows).assign(late=np.where(late, "yes", "no"))


def fitted(data: Path, increasing: str, *more: str) -> GCMClassifier:
    """What the command line fits to a file."""
    options = ["--members=2", "--epochs=2", "--quiet", "--overwrite", *more]
    folder = data.with_name("model")
    done = run("fit", data, "--target=late", "--increasing", increasing, "--out", folder, *options)
    assert done.code == 0, done.err
    found: GCMClassifier = load(folder)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that the command line has fitted."""
    folder = tmp_path_factory.mktemp("doors")
    fitted(written(training(), folder / "rows.parquet"), "amount,grade")
    return folder


@pytest.fixture(scope="module")
def model(place: Path) -> GCMClassifier:
    found: GCMClassifier = load(place / "model")
    return found


NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False)
ROWS = st.lists(
    st.tuples(
        st.none() | NUMBERS,
        st.none() | st.integers(-1000, 1000),
        st.none() | st.booleans(),
        st.none() | st.sampled_from([*JOBS, "unseen"]),
        st.none() | st.sampled_from(list(GRADES.categories)),
    ),
    min_size=2,
    max_size=6,
)
#: What is wrong with a table, if anything.
WRONGS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "a column lacks": lambda table: table.drop(columns="job"),
    "infinite": lambda table: table.assign(amount=np.inf),
    "text for numbers": lambda table: table.assign(amount="many"),
}
FILES = ("csv", "parquet", "arrow")


def in_memory(table: pd.DataFrame) -> dict[str, Any]:
    of_arrow = pa.Table.from_pandas(table, preserve_index=False)
    return {
        "pandas": table,
        "other order": table[table.columns[::-1]],
        "objects": table.astype({"amount": object, "count": object, "flag": object}),
        "polars": pl.from_arrow(of_arrow),
        "Arrow": of_arrow,
        "record batch": pa.RecordBatch.from_pandas(table, preserve_index=False),
        "mapping": {name: table[name] for name in table},
    }


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or that it refuses the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(call(), dtype=np.float64).tolist()
        except (TypeError, ValueError):
            return "refused"


def of_command(path: Path, model: Path) -> Any:
    done = run("predict", model, path, "--quiet")
    if done.code:
        assert done.code == 2, done.err
        raise ValueError(done.err)
    return exact(io.StringIO(done.out))["probability"]


def audited(model: GCMClassifier, table: Any) -> Any:
    found = audit_table(model, table, pairs=12, progress=False)
    return [found.pairs, found.violations, found.largest_drop, *found.frame["ties"]]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("block", range(170))
def test_a_table_is_the_same_through_every_door(
    block: int, place: Path, model: GCMClassifier, tmp_path: Path
) -> None:
    def check(rows: list[tuple[Any, ...]], wrong: str | None, other: str) -> None:
        table = frame(rows)
        if wrong:
            table = WRONGS[wrong](table)
        forms = in_memory(table)
        expected = outcome(lambda: model.predict_proba(table)[:, 1])
        assert (expected == "refused") == (wrong is not None), (wrong, expected)
        for name, form in forms.items():
            assert outcome(lambda f=form: model.predict_proba(f)[:, 1]) == expected, name
        for ending in FILES:
            path = written(table, tmp_path / f"table.{ending}")
            assert outcome(lambda p=path: of_command(p, place / "model")) == expected, ending
        if wrong or table["amount"].nunique() > 1:  # otherwise there is nothing to audit
            audit = outcome(lambda: audited(model, table))
            assert (audit == "refused") == (wrong is not None)
            assert outcome(lambda: audited(model, forms[other])) == audit, other

    others = st.sampled_from(["other order", "objects", "polars", "Arrow", "mapping"])
    wrongs = st.none() | st.sampled_from(list(WRONGS))
    run_on = hypothesis.given(ROWS, wrongs, others)(check)
    hypothesis.seed(block)(hypothesis.settings(**CAPS)(run_on))()


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("seed", range(20))
def test_the_same_rows_give_the_same_model_in_every_file(seed: int, tmp_path: Path) -> None:
    table = training(seed).astype({"grade": object})  # CSV has no order of levels
    found = []
    for ending in FILES:
        path = written(table, tmp_path / f"rows.{ending}")
        found.append(fitted(path, "amount", f"--seed={seed}").predict_proba(table[INPUTS]))
    in_python = GCMClassifier(
        monotonic_cst={"amount": 1}, members=2, epochs=2, random_state=seed, positive="yes"
    )
    found.append(in_python.fit(table[INPUTS], table["late"]).predict_proba(table[INPUTS]))
    assert all(np.array_equal(each, found[0]) for each in found)


@pytest.mark.long(keep=("polars",))
@pytest.mark.parametrize("name", ["other order", "objects", "polars", "Arrow", "mapping"])
def test_a_report_is_the_same_in_any_form(name: str, model: GCMClassifier, tmp_path: Path) -> None:
    table, options = training(1), {"path": tmp_path / "report.html", "pairs": 30}
    one, other = (
        write_report(model, X, table["late"], progress=False, **options)
        for X in (table[INPUTS], in_memory(table[INPUTS])[name])
    )
    assert one.scores == other.scores
    assert one.audit is not None
    assert other.audit is not None
    assert one.audit.frame.equals(other.audit.frame)
