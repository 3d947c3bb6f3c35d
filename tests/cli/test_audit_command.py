"""`pyro-gcm audit` of any predictor: exit codes, output files and column names."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from pyro_gcm.cli import main

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


def by_position(matrix):
    """The columns of the file: age, price, bid."""
    return matrix[:, 2] - 3.0 * matrix[:, 1]


def leaves(x, r):
    raise SystemExit(0)


def broken(x, r):
    raise RuntimeError("no weights")
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with toy.py and rows.csv."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.random((150, 4)), columns=["age", "price", "bid", "won"])
    frame["won"] = (frame["bid"] - frame["price"] + 0.3 * rng.normal(size=150) > 0).astype(int)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "toy.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "toy", raising=False)
    return tmp_path


def run(predictor: str, *options: str) -> int:
    return main(["audit", predictor, "rows.csv", "--pairs", "3000", *options])


def test_exit_code_is_1_with_violations_and_files_are_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = "--plot", "figure.png", "--json", "counts.json"
    assert run("toy:falls", "--r=-price,bid", "--x=age", "--seed=3", *files) == 1
    shown = capsys.readouterr().out
    assert "monotonicity FAILED" in shown
    assert "  bid: " in shown
    assert "  x: age = " in shown
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((folder / "counts.json").read_text())
    assert not record["passed"]
    assert record["violations"] == sum(row["violations"] for row in record["by_search"])
    witness = record["witness"]
    assert witness["confirmed"]
    assert witness["r_low"]["bid"] < witness["r_high"]["bid"]
    assert witness["r_low"]["price"] >= witness["r_high"]["price"]
    rows = pd.read_csv("rows.csv")
    assert witness["x"] == {"age": rows["age"][witness["row"]]}


RISES_IN_BID = "--r=bid,-price", "--x=age"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["toy:rises", *RISES_IN_BID], 0),
        (["toy:make", *RISES_IN_BID], 0),
        (["toy:Made", *RISES_IN_BID], 0),
        (["toy:falls", "--r=bid,price", "--x=age", "--tolerance=0.5"], 1),
        (["toy:falls", "--r=bid,price", "--x=age", "--tolerance=2"], 0),
        (["toy:by_position", *RISES_IN_BID], 0),
        (["toy:by_position", "--r=price", "--x=age,bid"], 1),
    ],
)
def test_exit_code_says_whether_the_audit_passed(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == code
    shown = "monotonicity FAILED" if code else "monotonicity passed: 0 violations"
    assert shown in capsys.readouterr().out


def test_minus_in_a_column_name_is_not_a_sign() -> None:
    pd.read_csv("rows.csv").rename(columns={"price": "-price"}).to_csv("rows.csv", index=False)
    assert run("toy:rises", "--r=bid,-price", "--x=age") == 1
    assert run("toy:rises", "--r=bid,--price", "--x=age") == 0


def test_counts_are_written_before_the_figure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyro_gcm.plots", None)
    files = "--plot=figure.png", "--json=counts.json"
    assert run("toy:falls", "--r=bid,price", "--x=age", *files) == 2
    assert not json.loads((folder / "counts.json").read_text())["passed"]


def test_estimator_in_a_file_knows_its_columns(folder: Path) -> None:
    rows = pd.read_csv("rows.csv")
    features = rows[["bid", "age", "price"]]
    for constraints, code in (({"bid": 1, "price": -1}, 0), (None, 1)):
        model = HistGradientBoostingClassifier(max_iter=5, monotonic_cst=constraints)
        joblib.dump(model.fit(features, rows["won"]), folder / "model.joblib")
        assert run("model.joblib", "--r=-price,bid") == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["toy:rises", "--x=age"], "--r must name the columns in which toy:rises should increase"),
        (["toy:rises", "--r=bid,cost", "--x=age"], "rows.csv has no columns ['cost']"),
        (["toy:rises", "--r=bid,price", "--x=age,bid"], "different columns, got ['bid'] twice"),
        (["toy:missing", "--r=bid"], "has no attribute 'missing'"),
        (["nowhere:rises", "--r=bid"], "No module named 'nowhere'"),
        (["nofile.pkl", "--r=bid"], "must be module:attribute or an existing file"),
        (["toy:broken", "--r=bid"], "RuntimeError: no weights"),
        (["toy:leaves", "--r=bid"], "SystemExit: 0"),
        (["rows.csv", "--r=bid"], "rows.csv cannot be read as a joblib or pickle file: "),
        (
            ["toy:rises", "--r=bid", "--pairs=2"],
            "'--pairs': wanted a whole number of at least 3, got '2'",
        ),
        (["toy:rises", "--r=bid", "--plot=figure.word"], "--plot must end in one of "),
    ],
)
def test_exit_code_is_2_for_invalid_arguments_and_errors(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    predictor, *options = arguments
    assert main(["audit", predictor, "rows.csv", *options]) == 2
    assert message in capsys.readouterr().err


def test_rows_with_more_fields_than_the_header_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # pandas would take the first column for the names of the rows, and shift all others.
    (folder / "rows.csv").write_text("age,price,bid,won\n" + "1,2,3,0,9\n" * 9)
    assert run("toy:rises", "--r=bid", "--x=age") == 2
    assert (
        "its rows have more fields than the header, which names 4 columns"
        in capsys.readouterr().err
    )


def test_the_former_command_still_works_and_says_where_it_went(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["audit", "toy:falls", "rows.csv", "--r=bid,price", "--pairs=300"]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.delitem(sys.modules, "pyro_gcm.audit.__main__", raising=False)
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module("pyro_gcm.audit", run_name="__main__")
    assert stopped.value.code == 1
    told = capsys.readouterr()
    assert "monotonicity FAILED" in told.out
    assert "is now pyro-gcm audit" in told.err
