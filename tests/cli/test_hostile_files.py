"""Files and names that do harm: each is refused or made harmless, and it is said."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import QUICK, exact, fit, run
from loans import table

import pyro_gcm
from pyro_gcm.cli import options
from pyro_gcm.estimators import GCMClassifier

Models = Callable[[str], Path]
COLUMNS = ["income", "debt", "owner", "job"]


def test_results_never_replace_what_is_read(models: Models) -> None:
    model = models("classifier")
    weights = next(model.glob("weights-*"))
    links = {"data": "data.csv", "card": model / "card.json", "weights": weights}
    for name, leads_to in links.items():
        Path(f"{name}_link.csv").symlink_to(leads_to)
        done = run("predict", model, "data.csv", f"--out={name}_link.csv")
        assert done.code == 2
        assert "--out must be another file than the ones that are read" in done.err
    assert run("audit", model, "data.csv", "--pairs=9", "--json", model / "card.json").code == 2
    assert run("predict", model, "data.csv", "--out", model / "scores.csv").code == 0
    assert run("info", model).code == 0
    (model / "scores.csv").unlink()


def test_what_a_terminal_obeys_is_shown_as_an_escape() -> None:
    red, bell = "\x1b[31mred\x1b[0m", "\x9b31m\x07"
    data = table().rename(columns={"job": red, "owner": bell}).replace({"default": {"yes": red}})
    data.to_csv(f"{red}.csv", index=False)
    usual = ("--target=default", "--increasing=debt", "--ignore=id", "--out=model", *QUICK)
    for command in (
        ("fit", f"{red}.csv", *usual),
        ("fit", f"{red}.csv", f"--target={bell}2", "--out=none"),
        ("info", "model"),
        ("predict", "model", "data.csv"),
        ("predict", "model", f"{red}.csv", f"--out={red}2.csv"),
        ("info", "model", "--json"),
    ):
        done = run(*command)
        shown = done.out + done.err
        assert not set(shown) & {"\x1b", "\x9b", "\x07"}, command
        assert "\\x1b[31m" in shown or "\\x9b" in shown or "\\u001b" in shown, command
    assert red in run("predict", "model", f"{red}.csv").out  # a file or a pipe has the bytes


def test_values_that_fit_never_saw_are_counted(models: Models) -> None:
    data = table().drop(columns=["income"]).assign(income=1.0)
    for changed, expected in (
        (data, ""),
        (data.assign(job="clerk "), "column 'job' has in 60 of 60 rows what fit never"),
        (data.assign(job=["pilot", *data["job"][1:]]), "column 'job' has in 1 of 60 rows what"),
    ):
        changed.to_csv("new.csv", index=False)
        done = run("predict", models("classifier"), "new.csv")
        assert expected in done.err if expected else not done.err


def test_a_table_that_is_larger_than_it_looks_is_read_when_asked(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = pa.table({name: np.zeros(11_000_000, dtype=np.int8) for name in ("a", "y")})
    pq.write_table(zeros, "many.parquet", compression="zstd")
    with pa.ipc.new_file("many.arrow", zeros.schema) as file:
        file.write_table(zeros, max_chunksize=1_000_000)
    Path("wide.csv").write_text(",".join(f"c{at}" for at in range(100_000)) + "\n")
    assert Path("many.parquet").stat().st_size < 1_000_000
    for file, size in (
        ("many.parquet", "11,000,000 rows, and more than 10,000,000"),
        ("many.arrow", "11,000,000 rows, and more than 10,000,000"),
        ("wide.csv", "100,000 columns, and more than 10,000"),
    ):
        for command in (
            ("fit", file, "--target=y", "--out=new"),
            ("predict", models("classifier"), file),
        ):
            done = run(*command)
            assert (done.code, done.out) == (2, "")
            assert f"DATA {file} has {size} are read with --large alone" in done.err
    monkeypatch.setitem(options.LIMITS, "rows", 50)
    table().to_parquet("data.parquet")
    assert run("predict", models("classifier"), "data.parquet").code == 2
    assert run("predict", models("classifier"), "data.parquet", "--large").code == 0


def test_notes_of_pandas_in_a_file_may_be_anything(models: Models) -> None:
    expected = run("predict", models("classifier"), "data.csv").out
    arrow = pa.Table.from_pandas(pd.read_csv("data.csv"), preserve_index=False)
    whole = {"name": "debt", "pandas_type": "categorical", "metadata": None}
    columns: list[Any] = [[], "x", [None], [{"name": "job"}], [{"pandas_type": "categorical"}]]
    for notes in (
        *({"columns": each} for each in (*columns, [whole], [{**whole, "name": ["a"]}])),
        {"index_columns": ["nowhere"]},
        {"index_columns": [{"kind": "range"}], "columns": []},
        [1],
    ):
        pq.write_table(arrow.replace_schema_metadata({"pandas": json.dumps(notes)}), "a.parquet")
        done = run("predict", models("classifier"), "a.parquet")
        assert done.code == 0, (notes, done.err)
        assert exact(io.StringIO(done.out)).equals(exact(io.StringIO(expected))), notes


def test_a_copied_cell_is_no_formula_where_that_is_asked_for(models: Models) -> None:
    cells = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\tx", "=HYPERLINK(1)"]
    harmless = ["-5", "+7", "-1,5", "a=b", "", "x"]
    data = table().assign(note=[*cells, *harmless] * 5)
    data.rename(columns={"note": "=note"}).to_csv("data.csv", index=False)
    for options_, sign in ((), ""), (("--safe",), "'"):
        done = run("predict", models("classifier"), "data.csv", "--keep==note", *options_)
        found = pd.read_csv(io.StringIO(done.out), keep_default_na=False, dtype=str)
        assert found.columns[0] == f"{sign}=note"
        assert found.iloc[:12, 0].tolist() == [*(f"{sign}{cell}" for cell in cells), *harmless]


@pytest.mark.skipif(os.name != "posix", reason="descriptors of a POSIX shell")
def test_a_stream_that_is_closed_is_told_and_takes_nothing_of_the_other(models: Models) -> None:
    table().assign(income=1.0, job="pilot").to_csv("new.csv", index=False)
    command = (
        f"{sys.executable} -m pyro_gcm.cli predict {models('classifier')} {Path.cwd()}/new.csv"
    )
    root = Path(pyro_gcm.__file__).parent.parent
    done = subprocess.run(["bash", "-c", f"{command} >&-"], cwd=root, capture_output=True)
    assert done.returncode == 2
    assert b"stdout is closed" in done.stderr
    done = subprocess.run(["bash", "-c", f"{command} 2>&-"], cwd=root, capture_output=True)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 61  # and no warning of values that fit never saw


def test_rows_of_a_group_are_held_out_together() -> None:
    data = table().assign(customer=np.arange(60) // 3)
    data.to_csv("data.csv", index=False)
    options_ = "--group=customer", "--out=model", "--overwrite"
    done = fit("classifier", *options_, "--json")
    assert done.code == 0, done.err
    assert {"name": "customer", "role": "group"}.items() <= done.json["columns"][-1].items()
    X = pd.read_csv("data.csv")[COLUMNS]
    in_python = GCMClassifier(
        monotonic_cst={"income": -1, "debt": 1}, members=2, epochs=1, positive="yes"
    ).fit(X, data["default"], groups=data["customer"])
    assert (pyro_gcm.load("model").predict_proba(X) == in_python.predict_proba(X)).all()
    done = fit("classifier", *options_, "--json", "--test-share=0.3")
    assert (done.json["rows"], done.json["test_rows"]) == (42, 18)  # 6 of 20 customers
    assert (
        "--group and --increasing both name 'debt'"
        in fit("classifier", "--group=debt", "--out=none").err
    )
