"""Wrong uses: one line that names the option, what came and what was wanted; nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import QUICK, run
from loan_table import table

FIT = "fit data.csv"  # and --out=new
DEFAULT = f"{FIT} --target=default"
ASK = "MODEL data.csv"
LONG = 300 * "n"
REPORT = f"report {ASK} --out=report.html"
#: A rule that is broken, by the command: the words of the error.
WRONG = {
    "fit dat.csv --target=a": (
        "DATA must be a file, and there is no dat.csv; did you mean 'data.csv'? "
        "(there are: bad.parquet, data.csv, dates.parquet, few.csv, folder.csv, "
    ),
    "fit data.xlsx --target=a": "DATA must end in .csv, .parquet, .arrow, .feather, got data.xlsx",
    "fit folder.csv --target=a": "DATA must be a file, and folder.csv is a folder",
    "fit bad.parquet --target=a": "DATA bad.parquet cannot be read: ",
    f"predict {LONG} data.csv": "File name too long",
    f"predict {ASK} --out={LONG}.csv": "File name too long",
    f"plot {ASK} --column=debt --out=a.png --values=1e308,-1e308": (
        "--values must be numbers of at most 1e+301 in size, such as 1,2,5, or low:high:count"
    ),
    "fit twice.csv --target=a": "DATA twice.csv has more than one column 'a'",
    "fit good.parquet --target=y --text=a": "--text is for CSV files, whose columns have no types",
    f"{FIT} --target=defualt": (
        "--target: data.csv has no column 'defualt'; did you mean 'default'? "
        "(there are: id, income, debt, owner, job, default, loss, grade, time, event)"
    ),
    f"{DEFAULT} --increasing=income,debts": "--increasing: data.csv has no column 'debts'; did",
    f"{DEFAULT} --increasing=debt --decreasing=debt": "--decreasing both name 'debt'",
    f"{DEFAULT} --increasing=debt,debt": "--increasing and --increasing both name 'debt'",
    f"{DEFAULT} --increasing debt --increasing debt": "--increasing both name 'debt'",
    f"{FIT} --target=income": "must have a value in every row, and 7 of 60 are missing, the first",
    f"{FIT} --target=grade": (
        "--target 'grade' must have two values, or numbers, and has 3 values (high, low, medium); "
        "ordered levels need --levels, such as --levels low,medium,high"
    ),
    f"{FIT} --target=grade --levels=low,high": (
        "--target 'grade' must have labels among --levels, ['low', 'high'], got 'medium' in row "
    ),
    f"{DEFAULT} --kind=binary": "Invalid value for '--kind': ",
    f"{DEFAULT} --kind=classifier --levels=no,yes": "--levels is for --kind ordinal, and this one ",
    f"{DEFAULT} --horizon=3": "--horizon is for --kind survival, and this one is classifier",
    f"{DEFAULT} --kind=regressor": "--target 'default' must have numbers, and has text, such as ",
    f"{FIT} --target=time --kind=survival": "--kind survival needs --event, the column that says",
    f"{FIT} --target=time --event=debt": "--event 'debt' must have 1 (the event came) and 0 (it",
    f"{DEFAULT} --positive=maybe": "--target 'default' has no value 'maybe' (there are: no, yes",
    f"{DEFAULT} --epochs=many": "Invalid value for '--epochs': ",
    f"{DEFAULT} --test-share=0.001": "--test-share: The test_size = 1 should be greater or equal",
    f"{DEFAULT} --test-share=0.99": "--test-share: ",
    "fit data.csv --target=default --out=.": "--out: folder ",
    "fit data.csv --target=default --out=data.csv/new": "--out: data.csv/new could not be written",
    "fit data.csv --target=default --out=MODEL": "has a model: overwrite=True (--overwrite) replac",
    FIT: "Missing option '--target'; see pyro-gcm fit --help",
    f"{DEFAULT} --increase=debt": "No such option: --increase",
    "fitt data.csv": "No such command 'fitt'",
    "fit dates.parquet --target=y": "column 'day' of X has dates, times or durations",
    "predict modle data.csv": "MODEL: folder modle does not exist, or is no folder",
    "predict MODEL half.csv": "DATA: half.csv has no column 'debt'; did you mean 'dept'?",
    "predict MODEL lots.csv": (
        "DATA lots.csv: column 'debt' must have numbers, as in fit, got 'lots' in row 3"
        "; row 1 is the first below the header"
    ),
    "predict MODEL inf.csv": "must be finite or missing, and is infinite in row 3",
    f"predict {ASK} --out=a.txt": "--out must end in .csv, .parquet, .arrow, .feather, got a.txt",
    f"predict {ASK} --out=data.csv": "--out must be another file than the ones that are read, got ",
    f"predict {ASK} --quantiles=0.5": "--quantiles is for models of numbers and times, got a ",
    f"surface {ASK} --column=job --values=a": "--column must have a direction, as income, debt",
    f"required {ASK} --column=dept --probability=0.1": "has no column 'dept'; did you mean 'debt'",
    "fit new.csv --target=a": "DATA must be a file, and there is no new.csv (there are: bad.",
    f"surface {ASK} --column=debt --values=0:10": "or low:high:count, such as 0:100:11, got '0:10'",
    f"report {ASK} --out=report.pdf": "--out must end in .html, got report.pdf",
    f"{REPORT} --target=grade": "--target 'grade' must have labels among those of fit, ['no', ",
    f"{REPORT} --event=event": "--event is for survival models, and this one is a classifier",
    "report MODEL few.csv --out=report.html": "DATA few.csv: X must have at least 10 rows, got 5",
    f"audit {ASK} --r=debt": "--r and --x are for other predictors, and ",
    "audit half.csv data.csv": "--r must name the columns in which half.csv should increase, as ",
    "info DAMAGED": "card.json was changed",
    "predict DAMAGED data.csv": "card.json was changed",
}
ROWS = b"a,b,y\n" + b"1,2,0\n2,3,1\n" * 20
#: A table that is not what it seems, by its content: the words of the error.
FILES = {
    b"": "cannot be read: it is empty",
    b"a,b,y\n": "has no rows",
    b"\xef\xbb\xbfa;b\n1;2\n": "must have columns separated by commas, got 'a;b'",
    "a,näme,y\n".encode("latin-1"): "'utf-8' codec can't decode byte 0xe4",
    "a,b,y\n".encode("utf-16"): "'utf-8' codec can't decode byte 0xff",
    # pandas would take the first column for the names of the rows, and shift all others.
    b"a,b,y\n" + b"1,2,0,9\n" * 20: "more fields than the header, which names 3 columns",
    ROWS + b"1,2,3,4,0\n": "C error: Expected 3 fields in line 42, saw 5",
    ROWS + b'1,"2,0\n': "C error: EOF inside string",
    ROWS.replace(b"y", b"y "): "has no column 'y'; did you mean 'y '?",
    b"a,b,y\n" + b'"1,5",2,0\n"2,5",3,1\n' * 20: "column 'a' has numbers, and fields that are not",
    ROWS.replace(b",1\n", b",0\n"): "--target 'y' must have two values, or numbers",
}


def test_a_wrong_use_is_told_in_one_line(folder: Path, models: Callable[[str], Path]) -> None:
    model, data = models("classifier"), table()
    (folder / "folder.csv").mkdir()
    (folder / "bad.parquet").write_text("no table")
    (folder / "twice.csv").write_text("a,b,a\n1,2,3\n")
    pd.DataFrame({"a": ["x"], "y": [1]}).to_parquet("good.parquet")
    days = pd.date_range("2020-01-01", periods=9)
    pd.DataFrame({"day": days, "y": range(9)}).to_parquet("dates.parquet")
    third = data["debt"][2]
    data.rename(columns={"debt": "dept"}).to_csv("half.csv", index=False)
    table(5).to_csv("few.csv", index=False)
    data.astype({"debt": object}).replace({"debt": {third: "lots"}}).to_csv("lots.csv")
    data.replace({"debt": {third: np.inf}}).to_csv("inf.csv")
    (folder / "damaged").mkdir()
    for file in model.iterdir():
        (folder / "damaged" / file.name).write_bytes(file.read_bytes().replace(b"debt", b"dept"))
    wrong = dict(WRONG)
    for at, (content, message) in enumerate(FILES.items()):
        (folder / f"wrong_{at}.csv").write_bytes(content)
        wrong[f"fit wrong_{at}.csv --target=y --increasing=a"] = message
    before = sorted(folder.iterdir())
    for command, message in wrong.items():
        words = command.replace("MODEL", str(model)).replace("DAMAGED", "damaged").split()
        if words[0] == "fit" and "--out" not in command:
            words.append("--out=new")
        done = run(*words)
        assert (done.code, done.out) == (2, ""), (command, done)
        name = "" if words[0] == "fitt" else f" {words[0]}"
        said = [line for line in done.err.splitlines() if "warning: " not in line]
        assert len(said) == 1, (command, done.err)
        assert said[0].startswith(f"pyro-gcm{name}: error: "), (command, done.err)
        assert message in said[0], (command, done.err)
        assert sorted(folder.iterdir()) == before, command


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

    monkeypatch.setattr("pyro_gcm.cli.saved.open_model", fails)
    done = run("info", "model")
    assert (done.code, done.out, done.err) == (code, "", message)
    monkeypatch.setenv("PYRO_GCM_DEBUG", "1")
    done = run("info", "model")
    assert done.code == code
    assert ("Traceback" in done.err) == (code == 3)


def test_a_column_with_one_value_is_warned_of() -> None:
    table()[["debt", "default"]].assign(flat=5.0).to_csv("flat.csv", index=False)
    done = run(
        *("fit", "flat.csv", "--target=default", "--positive=yes", "--increasing=debt,flat"),
        *("--out=new", *QUICK),
    )
    assert done.code == 0
    assert done.err == "pyro-gcm fit: warning: column 'flat' has the same value in all rows\n"


def test_of_many_columns_the_first_are_shown_and_all_are_read() -> None:
    many = pd.DataFrame({f"x{at}": range(60) for at in range(200)})
    pd.concat([table()[["debt", "default"]], many], axis=1).to_csv("wide.csv", index=False)
    done = run("fit", "wide.csv", "--target=default", "--increasing=debt", "--out=new", *QUICK)
    assert "│ x97 " in done.out
    assert "│ x98 " not in done.out
    assert "and 102 more" in done.out
    assert len(run("info", "new", "--json").json["columns"]) == 201
