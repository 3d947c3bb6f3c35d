"""Wrong uses: one line that names the option, what came and what was wanted; nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from command_line import run, table

KNOWN = "(there are: id, income, debt, owner, job, default, loss, grade, time, event)"
FIT = "fit", "data.csv", "--out=new"
DEFAULT = *FIT, "--target=default"
ASK = "MODEL", "data.csv"
WRONG = {
    "no such file": (
        ("fit", "dat.csv", "--target=default", "--out=new"),
        "fit: error: DATA must be a file, and there is no dat.csv; did you mean 'data.csv'? "
        "(there are: bad.csv, bad.parquet, data.csv, half.csv, twice.csv)",
    ),
    "not a table": (
        ("fit", "data.xlsx", "--target=default", "--out=new"),
        "fit: error: DATA must end in .csv, .parquet, .arrow, .feather, got data.xlsx",
    ),
    "damaged file": (
        ("fit", "bad.parquet", "--target=default", "--out=new"),
        "fit: error: DATA bad.parquet cannot be read: ",
    ),
    "names twice": (
        ("fit", "twice.csv", "--target=a", "--out=new"),
        "fit: error: DATA twice.csv has more than one column 'a'",
    ),
    "semicolons": (
        ("fit", "bad.csv", "--target=a", "--out=new"),
        "fit: error: DATA bad.csv must have columns separated by commas, got 'a;b'",
    ),
    "target misspelt": (
        (*FIT, "--target=defualt"),
        "fit: error: --target: data.csv has no column 'defualt'; did you mean 'default'? " + KNOWN,
    ),
    "column misspelt": (
        (*DEFAULT, "--increasing=debts"),
        "fit: error: --increasing: data.csv has no column 'debts'; did you mean 'debt'? " + KNOWN,
    ),
    "both directions": (
        (*DEFAULT, "--increasing=debt,income", "--decreasing=debt"),
        "fit: error: --increasing and --decreasing both name 'debt'",
    ),
    "direction of text": (
        (*DEFAULT, "--increasing=job"),
        "fit: error: --increasing 'job' must have numbers, booleans or an ordered category, and "
        "has text, 3 values",
    ),
    "missing target": (
        (*FIT, "--target=income", "--increasing=debt"),
        "fit: error: --target 'income' must have a value in every row, and 7 of 60 are missing, "
        "the first in row 1",
    ),
    "text target": (
        (*FIT, "--target=grade", "--increasing=debt"),
        "fit: error: --target 'grade' must have two values, or numbers, and has 3 values (high, "
        "low, medium); ordered levels need --levels, such as --levels low,medium,high",
    ),
    "level left out": (
        (*FIT, "--target=grade", "--increasing=debt", "--levels=low,high"),
        "fit: error: --levels must have all values of 'grade', and lacks medium",
    ),
    "no such kind": (
        (*DEFAULT, "--kind=binary"),
        "fit: error: --kind must be one of classifier, regressor, distribution, ordinal, survival, "
        "got 'binary'",
    ),
    "option of another kind": (
        (*DEFAULT, "--kind=classifier", "--levels=no,yes"),
        "fit: error: --levels is for --kind ordinal, and this one is classifier",
    ),
    "numbers of text": (
        (*DEFAULT, "--kind=regressor"),
        "fit: error: --target 'default' must have numbers for --kind regressor, and has text, 2 "
        "values, such as ",
    ),
    "survival without events": (
        (*FIT, "--target=time", "--kind=survival"),
        "fit: error: --kind survival needs --event, the column that says whether",
    ),
    "events that are none": (
        (*FIT, "--target=time", "--event=job"),
        "fit: error: --event 'job' must have a value in every row, and 6 of 60 are missing",
    ),
    "no such class": (
        (*DEFAULT, "--positive=maybe"),
        "fit: error: --positive must be 'no' or 'yes', got 'maybe'",
    ),
    "no number": (
        (*DEFAULT, "--epochs=many"),
        "fit: error: Invalid value for '--epochs': wanted a whole number of at least 1, got "
        "'many'; see pyro-gcm fit --help",
    ),
    "share": (
        (*DEFAULT, "--test-share=20"),
        "fit: error: --test-share must lie strictly between 0 and 1, got 20",
    ),
    "device": (
        (*DEFAULT, "--device=tpu"),
        "fit: error: --device must be auto, cpu, cuda or another device that torch finds, got "
        "'tpu'",
    ),
    "folder in use": (
        ("fit", "data.csv", "--target=default", "--out=."),
        "fit: error: --out: folder ",
    ),
    "place below a file": (
        ("fit", "data.csv", "--target=default", "--out=data.csv/new"),
        "fit: error: --out must be in a folder, got data.csv/new, and ",
    ),
    "no target": (DEFAULT[:3], "fit: error: Missing option '--target'; see pyro-gcm fit --help"),
    "no such option": (
        (*DEFAULT, "--increase=debt"),
        "fit: error: No such option: --increase",
    ),
    "no such command": (("fitt", "data.csv"), "No such command 'fitt'"),
    "no model": (
        ("predict", "modle", "data.csv"),
        "predict: error: MODEL must be the folder of a model, and modle is not there",
    ),
    "missing column": (
        ("predict", "MODEL", "half.csv"),
        "predict: error: DATA: half.csv has no column 'debt'; did you mean 'dept'? (there are: ",
    ),
    "text for numbers": (
        ("predict", "MODEL", "strange.csv"),
        "predict: error: DATA strange.csv: column 'debt' must have numbers, as in fit, got 'lots' "
        "in row 3",
    ),
    "output": (
        ("predict", *ASK, "--out=scores.txt"),
        "predict: error: --out must end in .csv, .parquet, .arrow, .feather, got scores.txt",
    ),
    "over the input": (
        ("predict", *ASK, "--out=data.csv"),
        "predict: error: --out must be another file than the one that is read, got data.csv",
    ),
    "quantiles of a classifier": (
        ("predict", *ASK, "--quantiles=0.5"),
        "predict: error: --quantiles is for models of numbers and times, and this one is a "
        "GCMClassifier",
    ),
    "free column": (
        ("surface", *ASK, "--column=job", "--values=a"),
        "surface: error: --column must have a direction in the model, one of income, debt, got "
        "'job', which is free",
    ),
    "values": (
        ("surface", *ASK, "--column=debt", "--values=0:10"),
        "surface: error: --values must be low:high:count with a count of 2 to 100,000, such as "
        "0:100:11, got '0:10'",
    ),
    "probability": (
        ("required", *ASK, "--column=debt", "--probability=20"),
        "required: error: --probability must lie strictly between 0 and 1, got 20",
    ),
    "figure": (
        ("plot", *ASK, "--column=debt", "--out=curve.word"),
        "plot: error: --out must end in one of ",
    ),
    "report": (
        ("report", *ASK, "--out=report.pdf"),
        "report: error: --out must end in .html, got report.pdf",
    ),
    "report in a folder": (
        ("report", *ASK, "--out=data.csv/report.html"),
        "report: error: --out must be in a folder, got data.csv/report.html, and ",
    ),
    "outcome of a report": (
        ("report", *ASK, "--out=report.html", "--target=grade"),
        "report: error: --target 'grade' must be one of no, yes, as in fit, got ",
    ),
    "outcome that is missing": (
        ("report", *ASK, "--out=report.html", "--target=incme"),
        "report: error: --target: data.csv has no column 'incme'; did you mean 'income'?",
    ),
    "event of a classifier": (
        ("report", *ASK, "--out=report.html", "--event=event"),
        "report: error: --event is for survival models, and this one is a classifier",
    ),
    "few rows": (
        ("report", "MODEL", "few.csv", "--out=report.html"),
        "report: error: DATA few.csv: X must have at least 10 rows, got 5",
    ),
    "options of other predictors": (
        ("audit", *ASK, "--r=debt"),
        "audit: error: --r is for other predictors, and ",
    ),
    "predictor without columns": (
        ("audit", "bad.csv", "data.csv"),
        "audit: error: --r must name the columns in which bad.csv should increase, as in --r a",
    ),
    "infinite": (
        ("predict", "MODEL", "infinite.csv"),
        "predict: error: DATA infinite.csv: column 'debt' must be finite or missing, and is "
        "infinite in row 3",
    ),
    "text of a file with types": (
        ("fit", "bad.parquet", "--target=y", "--text=a", "--out=new"),
        "fit: error: --text is for CSV files, whose columns have no types, got bad.parquet",
    ),
    "no such predictor": (
        ("audit", "nowhere:predict", "data.csv", "--r=debt"),
        "audit: error: MODEL: No module named 'nowhere'",
    ),
}


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """Tables with which something is wrong."""
    (folder / "bad.parquet").write_bytes(b"no table")
    (folder / "bad.csv").write_text("a;b\n1;2\n")
    (folder / "twice.csv").write_text("a,b,a\n1,2,3\n")
    table().rename(columns={"debt": "dept"}).to_csv(folder / "half.csv", index=False)


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_use_is_told_in_one_line(
    case: str, folder: Path, models: Callable[[str], Path]
) -> None:
    arguments, message = WRONG[case]
    for name, value in (("strange.csv", "lots"), ("infinite.csv", "inf")):
        if name in arguments:
            data = table().astype({"debt": object})
            data.loc[2, "debt"] = value
            data.to_csv(name, index=False)
    if "few.csv" in arguments:
        table(5).to_csv("few.csv", index=False)
    before = sorted(folder.iterdir())
    model = models("classifier") if "MODEL" in arguments else None
    done = run(*(model if word == "MODEL" else word for word in arguments))
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.startswith("pyro-gcm")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    assert sorted(folder.iterdir()) == before


def test_a_date_is_refused_with_what_to_do() -> None:
    pd.DataFrame({"day": pd.date_range("2020-01-01", periods=9), "y": range(9)}).to_parquet(
        "d.parquet"
    )
    done = run("fit", "d.parquet", "--target=y", "--out=new")
    assert done.code == 2
    assert "column 'day' has a type that no model reads, date: --ignore day, or write" in done.err


def test_a_saved_model_is_replaced_only_when_asked(models: Callable[[str], Path]) -> None:
    command = "fit", "data.csv", "--target=default", "--out", models("classifier")
    done = run(*command)
    assert done.code == 2
    assert "exists and is not empty: pass --overwrite to replace it" in done.err


def test_a_damaged_model_is_told_in_one_line(folder: Path, models: Callable[[str], Path]) -> None:
    (folder / "damaged").mkdir()
    for file in models("classifier").iterdir():
        (folder / "damaged" / file.name).write_bytes(file.read_bytes().replace(b"debt", b"dept"))
    for command in (("info", "damaged"), ("predict", "damaged", "data.csv")):
        done = run(*command)
        assert done.code == 2
        assert "card.json was changed" in done.err or "manifest.json" in done.err
        assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "pyro-gcm info: interrupted\n"),
        (KeyError("lost"), 3, "pyro-gcm info: unexpected error: KeyError: 'lost'\n"),
    ],
)
def test_other_ends_have_codes_of_their_own(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(folder: Path) -> None:
        raise error

    monkeypatch.setattr("pyro_gcm.cli.saved.open_card", fails)
    done = run("info", "model")
    assert (done.code, done.out, done.err) == (code, "", message)
    monkeypatch.setenv("PYRO_GCM_DEBUG", "1")
    done = run("info", "model")
    assert done.code == code
    assert ("Traceback" in done.err) == (code == 3)
