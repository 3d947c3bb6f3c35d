"""`pyro-gcm report` and `pyro-gcm audit`: what they read, print and write."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from command_line import Done, fit, run
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import pyro_gcm

Models = Callable[[str], Path]
QUICK = ("--pairs=10", "--quiet", "--json", "--out=report.html")


@pytest.mark.long(keep=0)
def test_outcomes_are_read_as_fit_read_them(models: Models) -> None:
    data = pd.read_csv("data.csv")
    done = run("report", models("survival"), "data.csv", *QUICK)
    assert (done.code, done.err) == (0, "")
    assert done.json["kind"] == "survival"
    assert done.json["audit"] == {"passed": True, "pairs": 10, "violations": 0}
    model = pyro_gcm.load(models("survival"))
    came = data["event"].to_numpy() == 1, data["time"].to_numpy()
    assert done.json["scores"] == {"concordance": model.score(data[model.feature_names_in_], came)}
    page = Path("report.html").read_text(encoding="utf-8")
    for words in ("data.csv", "the event “event” comes by “time” = 0.5", "survival"):
        assert words in page
    assert str(models("survival")) not in page  # a name, and no place on a disk
    # The event is the first class in sorted order.
    assert fit("classifier", "--out=first", "--positive=no").code == 0
    done = run("report", "first", "data.csv", *QUICK)
    predicted = run("predict", "first", "data.csv").table["class"]
    assert done.json["scores"]["accuracy"] == (predicted == data["default"]).mean()
    assert "“default” is “no”" in Path("report.html").read_text(encoding="utf-8")


def test_the_report_is_about_the_rows_that_fit_held_out() -> None:
    assert fit("classifier", "--test-share=0.4", "--out=held").code == 0
    data, page = pd.read_csv("data.csv"), Path("report.html")
    data[::-1].to_csv("turned.csv", index=False)
    done = run("report", "held", "turned.csv", *QUICK, "--by=owner", "--at=0.3")
    assert done.code == 0, done.err
    assert done.json["rows"] == 24
    noted = pyro_gcm.io.read_card("held")["metrics"]["table"]
    assert done.json["scores"] == pytest.approx(noted["scores"], rel=1e-12)
    text = page.read_text(encoding="utf-8")
    for words in ("24 rows of the file turned.csv, which were held out", "Groups by “owner”"):
        assert words in text
    assert "The model was fitted without these rows" in text
    assert "Drift is the population stability index" in text
    # Rows with other values are new, and copies of training rows are not held out.
    data.assign(debt=data["debt"] + 1.0).to_csv("new.csv", index=False)
    assert run("report", "held", "new.csv", *QUICK).json["rows"] == 60
    assert "The report cannot know whether these rows" in page.read_text(encoding="utf-8")
    pd.concat([data] * 2).to_csv("twice.csv", index=False)
    assert fit("classifier", "--test-share=0.4", "--out=twice", data="twice.csv").code == 0
    rows = run("report", "twice", "twice.csv", *QUICK).json["rows"]
    kept = np.frombuffer(
        base64.b64decode(pyro_gcm.io.read_card("twice")["metrics"]["rows_of_fit"]["held_out"]),
        np.uint64,
    )
    assert rows == 2 * len(kept) < 48  # of both copies, or of neither


@pytest.mark.long(keep=0)
def test_a_table_without_the_target_has_no_scores(models: Models) -> None:
    new = pd.read_csv("data.csv").drop(columns="default")
    new.to_csv("new.csv", index=False)
    done = run("report", models("classifier"), "new.csv", "--out=report.html", "--pairs=10")
    assert (done.code, done.out) == (0, "")
    lines = done.err.splitlines()
    assert lines[0] == "new.csv has no column 'default', so scores are left out of the report"
    assert lines[-1] == "report written to report.html"
    assert "The table has no outcomes of “default”" in Path("report.html").read_text(
        encoding="utf-8"
    )


def test_a_column_of_events_that_is_missing_is_named(models: Models) -> None:
    pd.read_csv("data.csv").drop(columns="event").to_csv("new.csv", index=False)
    done = run("report", models("survival"), "new.csv", "--target=time", *QUICK)
    assert done.code == 2
    assert "--event: new.csv has no column 'event'" in done.err


# The audit of any predictor


MODULE = '''
"""Toy predictors."""


def rises(x, r):
    return x[:, 0] + r[:, 0] - r[:, 1]


def falls(x, r):
    return -r[:, 0] - r[:, 1]


class Made:
    def predict(self, x, r):
        return rises(x, r)


def make():
    return Made()


def of_table(table):
    return table["bid"] - 3.0 * table["price"]


def leaves(x, r):
    raise SystemExit(0)


def broken(x, r):
    raise RuntimeError("no weights")
'''


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with toy.py and rows.csv."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.random((150, 4)), columns=["age", "price", "bid", "won"])
    frame["won"] = (frame["bid"] - frame["price"] + 0.3 * rng.normal(size=150) > 0).astype(int)
    frame.to_csv("rows.csv", index=False)
    (folder / "toy.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "toy", raising=False)


def audit(predictor: str, *options: str) -> Done:
    return run("audit", predictor, "rows.csv", "--pairs=3000", *options)


def test_exit_code_is_1_with_violations_and_files_are_written() -> None:
    options = "toy:falls", "--r=-price,bid", "--x=age", "--seed=3", "--quiet"
    done = audit(*options, "--plot", "figure.png", "--json", "counts.json")
    assert done.code == 1
    for words in ("monotonicity FAILED", "  bid: ", "  x: age = "):
        assert words in done.out
    assert Path("figure.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads(Path("counts.json").read_text())
    assert audit(*options, "--json", "--plot=other.png").json == {"command": "audit", **record}
    assert not record["passed"]
    assert record["violations"] == sum(row["violations"] for row in record["by_search"])
    witness = record["witness"]
    assert witness["confirmed"]
    assert witness["r_low"]["bid"] < witness["r_high"]["bid"]
    assert witness["r_low"]["price"] >= witness["r_high"]["price"]
    rows = pd.read_csv("rows.csv")
    assert witness["x"] == {"age": rows["age"][witness["row"]]}


def test_exit_code_says_whether_the_audit_passed() -> None:
    rises = "--r=bid,-price", "--x=age"
    features = pd.read_csv("rows.csv")[["bid", "age", "price"]]
    for sign, name in ((1.0, "rises"), (-1.0, "falls")):
        model = LinearRegression().fit(features, sign * features @ [1.0, 0.0, -1.0])
        joblib.dump(model, f"{name}.joblib")
    for arguments, code in (
        (["toy:rises", *rises], 0),
        (["toy:make", *rises], 0),
        (["toy:Made", *rises], 0),
        (["toy:falls", "--r=bid,price", "--x=age", "--tolerance=0.5"], 1),
        (["toy:falls", "--r=bid,price", "--x=age", "--tolerance=2"], 0),
        (["toy:of_table", *rises], 0),
        (["toy:of_table", "--r=price", "--x=age,bid"], 1),
        (["rises.joblib", "--r=-price,bid"], 0),  # knows its columns
        (["falls.joblib", "--r=-price,bid"], 1),
    ):
        done = audit(*arguments)
        assert done.code == code, (arguments, done.err)
        assert ("monotonicity FAILED" if code else "monotonicity passed: 0 ") in done.out


def test_what_trees_prove_is_in_the_summary_and_the_document() -> None:
    rows = pd.read_csv("rows.csv")[["bid", "age", "price"]]
    y, options = rows["bid"] - rows["price"], {"max_iter": 5, "min_samples_leaf": 5}
    for signs, code, verdict in (([1, 0, -1], 0, "proved for all rows"), (None, 1, "falls")):
        falls = y if signs else -y
        model = HistGradientBoostingRegressor(monotonic_cst=signs, **options).fit(rows, falls)
        joblib.dump(model, "trees.joblib")
        done = audit("trees.joblib", "--r=bid,-price", "--json")
        assert done.code == code, done.err
        proof = done.json["proof"]
        assert (proof["verdict"], proof["trees"]) == (verdict, 5)
        assert [len(pair) for pair in proof["pair"] or []] == [3, 3][: 2 * code]
        assert f"trees: {verdict} (5 trees, " in audit("trees.joblib", "--r=bid,-price").out


def test_minus_in_a_column_name_is_not_a_sign() -> None:
    pd.read_csv("rows.csv").rename(columns={"price": "-price"}).to_csv("rows.csv", index=False)
    assert audit("toy:rises", "--r=bid,-price", "--x=age").code == 1
    assert audit("toy:rises", "--r=bid,--price", "--x=age").code == 0


def test_counts_are_written_before_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyro_gcm.plots", None)
    options = "--r=bid,price", "--x=age", "--json", "counts.json", "--plot=figure.png"
    assert audit("toy:falls", *options).code == 2
    assert not json.loads(Path("counts.json").read_text())["passed"]


def test_exit_code_is_2_for_invalid_arguments_and_errors() -> None:
    for arguments, message in (
        (["toy:rises", "--x=age"], "--r must name the columns in which toy:rises should increase"),
        (["toy:rises", "--r=bid,cost", "--x=age"], "--r: rows.csv has no column 'cost'"),
        (["toy:rises", "--r=bid", "--x=ages"], "--x: rows.csv has no column 'ages'; did you mean"),
        (["toy:missing", "--r=bid"], "has no attribute 'missing'"),
        (["nowhere:rises", "--r=bid"], "error: MODEL: No module named 'nowhere'"),
        (["nofile.pkl", "--r=bid"], "must be module:attribute or an existing file"),
        (["toy:broken", "--r=bid"], "no weights"),
        (["toy:leaves", "--r=bid"], "SystemExit: 0"),
        (["rows.csv", "--r=bid"], "rows.csv cannot be read as a joblib or pickle file: "),
        (["toy:rises", "--r=bid", "--pairs=2"], "Invalid value for '--pairs': "),
        (["toy:rises", "rows.csv", "--r=bid", "--json"], "and end in .json, got rows.csv"),
    ):
        done = audit(*arguments)
        assert done.code == 2, arguments
        assert message in done.err
