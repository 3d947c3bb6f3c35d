"""`pyro-gcm audit` of any predictor: exit codes, output files and column names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from command_line import Done, run
from sklearn.ensemble import HistGradientBoostingClassifier

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
    for constraints, name in (({"bid": 1, "price": -1}, "rises"), (None, "free")):
        model = HistGradientBoostingClassifier(max_iter=5, monotonic_cst=constraints)
        joblib.dump(model.fit(features, pd.read_csv("rows.csv")["won"]), f"{name}.joblib")
    for arguments, code in (
        (["toy:rises", *rises], 0),
        (["toy:make", *rises], 0),
        (["toy:Made", *rises], 0),
        (["toy:falls", "--r=bid,price", "--x=age", "--tolerance=0.5"], 1),
        (["toy:falls", "--r=bid,price", "--x=age", "--tolerance=2"], 0),
        (["toy:of_table", *rises], 0),
        (["toy:of_table", "--r=price", "--x=age,bid"], 1),
        (["rises.joblib", "--r=-price,bid"], 0),  # knows its columns
        (["free.joblib", "--r=-price,bid"], 1),
    ):
        done = audit(*arguments)
        assert done.code == code, (arguments, done.err)
        assert ("monotonicity FAILED" if code else "monotonicity passed: 0 ") in done.out


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
