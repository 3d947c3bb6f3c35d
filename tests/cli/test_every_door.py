"""Random tables come through every door alike: to the last bit, or to the same kind of error."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command_line import exact, run, written

from pyro_gcm import load
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier
from pyro_gcm.report import write_report

GRADES = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
JOBS = ["clerk", "NA", "None", "007", "a,b", 'x"y', " padded ", "line\nbreak", "é中🙂", "nan"]
INPUTS = ["amount", "count", "flag", "job", "grade"]
FILES = ("csv", "parquet", "arrow")


def random_rows(count: int, seed: int, spread: float = 1.0) -> pd.DataFrame:
    """Rows as a careful user has them, of which some lack a value."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "amount": rng.lognormal(3, spread, count),
        "count": pd.array(rng.integers(-5, 50, count), "Int64"),
        "flag": pd.array(rng.random(count) < 0.5, "boolean"),
        "job": rng.choice([*JOBS, "unseen"][: 10 + (spread > 1.0)], count),
        "grade": pd.Categorical(rng.choice(GRADES.categories, count), dtype=GRADES),
    }
    made = pd.DataFrame(columns).astype({"job": object})
    return made.mask(pd.DataFrame(rng.random(made.shape) < 0.1, columns=INPUTS))


def training(seed: int = 0) -> pd.DataFrame:
    """Rows with outcomes."""
    rows = random_rows(126, seed)
    late = (rows["amount"].fillna(20.0) > 20.0) ^ (np.random.default_rng(seed).random(126) < 0.2)
    return rows.assign(late=np.where(late, "yes", "no"))


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
    return folder / "model"


def in_memory(table: pd.DataFrame) -> dict[str, Any]:
    of_arrow = pa.Table.from_pandas(table, preserve_index=False)
    return {
        "other order": table[table.columns[::-1]],
        "objects": table.astype({"amount": object, "count": object, "flag": object}),
        "polars": pl.from_arrow(of_arrow),
        "Arrow": of_arrow,
        "record batch": pa.RecordBatch.from_pandas(table, preserve_index=False),
        "mapping": {name: table[name] for name in table},
    }


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call returns, or that it refuses the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(call(*arguments), dtype=np.float64).tolist()
        except (TypeError, ValueError):
            return "refused"


def of_command(path: Path, model: Path) -> Any:
    done = run("predict", model, path, "--quiet")
    if done.code:
        assert done.code == 2, done.err
        raise ValueError(done.err)
    return exact(io.StringIO(done.out))["probability"]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("block", range(34))
def test_a_table_is_the_same_through_every_door(block: int, place: Path, tmp_path: Path) -> None:
    model: GCMClassifier = load(place)

    def probability(table: Any) -> Any:
        return model.predict_proba(table)[:, 1]

    def audited(table: Any) -> Any:
        found = audit_table(model, table, pairs=12, progress=False)
        return [found.pairs, found.violations, found.largest_drop, *found.frame["ties"]]

    for seed in range(5 * block, 5 * block + 5):
        table = random_rows(2 + seed % 5, seed, spread=6.0)
        wrongs = {  # what is wrong with the table, if anything
            0: table.drop(columns="job"),
            1: table.assign(amount=np.inf),
            2: table.assign(amount="many"),
        }
        table = wrongs.get(seed % 10, table)
        forms, expected = in_memory(table), outcome(probability, table)
        assert (expected == "refused") == (seed % 10 in wrongs), (seed, expected)
        for name, form in forms.items():
            assert outcome(probability, form) == expected, (seed, name)
        for ending in FILES:
            path = written(table, tmp_path / f"table.{ending}")
            assert outcome(of_command, path, place) == expected, (seed, ending)
        if seed % 10 in wrongs or table["amount"].nunique() > 1:  # or there is nothing to audit
            other = list(forms)[seed % len(forms)]
            assert outcome(audited, forms[other]) == outcome(audited, table), (seed, other)


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


@pytest.mark.long(keep=0)
def test_a_report_is_the_same_in_any_form(place: Path, tmp_path: Path) -> None:
    table, options = training(1), {"path": tmp_path / "report.html", "pairs": 30}
    model: GCMClassifier = load(place)
    one = write_report(model, table[INPUTS], table["late"], progress=False, **options)
    for name, form in in_memory(table[INPUTS]).items():
        other = write_report(model, form, table["late"], progress=False, **options)
        assert one.scores == other.scores, name
        assert one.audit is not None
        assert other.audit is not None
        assert one.audit.frame.equals(other.audit.frame), name
