"""Wrong uses: one line that names the option, what came and what was wanted; nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import QUICK, run
from loan_table import table

from pyro_gcm.cli.errors import one_line

FIT = "fit data.csv"  # and --out=new
DEFAULT = f"{FIT} --target=default"
ASK = "MODEL data.csv"
LONG = 300 * "n"
REPORT = f"report {ASK} --out=report.html"
#: A rule that is broken, by the command: the words of the error.
WRONG = {
    "fit dat.csv --target=a": (
        "DATA must be a file, and there is no dat.csv; did you mean 'data.csv'? "
        "(there are: bad.parquet, data.csv, few.csv, folder.csv, good.parquet, "
    ),
    "fit data.xlsx --target=a": "DATA must end in .csv, .parquet, .arrow, .feather, got data.xlsx",
    "fit folder.csv --target=a": "DATA must be a file, and folder.csv is a folder",
    "fit bad.parquet --target=a": "DATA bad.parquet cannot be read: ",
    f"fit {LONG}.csv --target=a": "File name too long",
    f"predict {LONG} data.csv": "File name too long",
    f"predict {ASK} --out={LONG}.csv": "File name too long",
    f"fit data.csv --target=default --out={LONG}": "--out: File name too long",
    f"audit {ASK} --json={LONG}.json": "File name too long",
    f"audit {LONG} data.csv --r=debt": "File name too long",
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
    f"{DEFAULT} --increasing=debt,debt": "--increasing names 'debt' twice",
    f"{DEFAULT} --increasing debt --increasing debt": "--increasing names 'debt' twice",
    f"{FIT} --target=income": (
        "--target 'income' must have a value in every row, and 7 of 60 are missing, the first in "
        "row 1"
    ),
    f"{FIT} --target=grade": (
        "--target 'grade' must have two values, or numbers, and has 3 values (high, low, medium); "
        "ordered levels need --levels, such as --levels low,medium,high"
    ),
    f"{FIT} --target=grade --levels=low,high": (
        "--target 'grade' must have labels among --levels, ['low', 'high'], got 'medium' in row "
    ),
    f"{DEFAULT} --kind=binary": "Invalid value for '--kind': ",
    f"{DEFAULT} --kind=classifier --levels=no,yes": "--levels is for --kind ordinal, and this one ",
    f"{DEFAULT} --kind=regressor": "--target 'default' must have numbers, and has text, such as ",
    f"{FIT} --target=time --kind=survival": "--kind survival needs --event, the column that says",
    f"{FIT} --target=time --event=debt": "--event 'debt' must have 1 (the event came) and 0 (it",
    f"{DEFAULT} --positive=maybe": "and has 2 (no, yes), and --positive 'maybe'",
    f"{DEFAULT} --epochs=many": "Invalid value for '--epochs': ",
    f"{DEFAULT} --test-share=20": "Invalid value for '--test-share': ",
    f"{DEFAULT} --test-share=0.001": "--test-share: The test_size = 1 should be greater or equal",
    f"{DEFAULT} --test-share=0.99": "--test-share: ",
    "fit data.csv --target=default --out=.": "--out: folder ",
    "fit data.csv --target=default --out=data.csv/new": "--out: data.csv/new could not be written",
    FIT: "Missing option '--target'; see pyro-gcm fit --help",
    f"{DEFAULT} --increase=debt": "No such option: --increase",
    "fitt data.csv": "No such command 'fitt'",
    "predict modle data.csv": "MODEL must be the folder of a model, and modle is not there",
    "predict MODEL half.csv": "DATA: half.csv has no column 'debt'; did you mean 'dept'?",
    "predict MODEL lots.csv": (
        "DATA lots.csv: column 'debt' must have numbers, as in fit, got 'lots' in row 3"
    ),
    "predict MODEL inf.csv": "must be finite or missing, and is infinite in row 3",
    f"predict {ASK} --out=a.txt": "--out must end in .csv, .parquet, .arrow, .feather, got a.txt",
    f"predict {ASK} --out=data.csv": (
        "--out must be another file than the ones that are read, got data.csv"
    ),
    f"predict {ASK} --quantiles=0.5": "--quantiles is for models of numbers and times, and this ",
    f"surface {ASK} --column=job --values=a": (
        "--column: feature must be a column with a direction in monotonic_cst, one of ['income', "
    ),
    f"surface {ASK} --column=debt --values=0:10": (
        "or low:high:count, such as 0:100:11, got '0:10'"
    ),
    f"report {ASK} --out=report.pdf": "--out must end in .html, got report.pdf",
    f"{REPORT} --target=grade": "--target 'grade' must have labels among those of fit, ['no', ",
    f"{REPORT} --event=event": "--event is for survival models, and this one is a classifier",
    "report MODEL few.csv --out=report.html": "DATA few.csv: X must have at least 10 rows, got 5",
    f"audit {ASK} --r=debt": "--r and --x are for other predictors, and ",
    "audit half.csv data.csv": "--r must name the columns in which half.csv should increase, as ",
}

HEADER = b"a,b,y\n"
ROWS = b"1,2,0\n2,3,1\n" * 20
#: A table that is not what it seems: its content, and the words of the error.
FILES = {
    "empty": (b"", "cannot be read: it is empty"),
    "a_header_alone": (HEADER, "has no rows"),
    "a_mark_of_UTF-8": (
        b"\xef\xbb\xbfa;b\n1;2\n",
        "must have columns separated by commas, got 'a;b'",
    ),
    "Latin_1": ("a,näme,y\n".encode("latin-1"), "'utf-8' codec can't decode byte 0xe4"),
    "UTF-16": ("a,b,y\n".encode("utf-16"), "'utf-8' codec can't decode byte 0xff"),
    # pandas would take the first column for the names of the rows, and shift all others.
    "fields": (HEADER + b"1,2,0,9\n" * 20, "more fields than the header, which names 3 columns"),
    "a_long_row": (HEADER + ROWS + b"1,2,3,4,0\n", "read: Expected 3 fields in line 42, saw 5"),
    "an_open_quote": (HEADER + b'1,"2,0\n' + ROWS, "cannot be read: EOF inside string"),
    "a_space": (b"a,b,y \n" + ROWS, "has no column 'y'; did you mean 'y '?"),
    "decimal_commas": (
        HEADER + b'"1,5",2,0\n"2,5",3,1\n' * 20,
        "column 'a' has numbers, and fields that are not read as numbers, such as '1,5' in row 1",
    ),
    "one_outcome": (
        HEADER + b"1,2,0\n2,3,0\n" * 20,
        "--target 'y' must have two values, or numbers",
    ),
}
WRONG |= {
    f"fit wrong_{name}.csv --target=y --increasing=a": words for name, (_, words) in FILES.items()
}


#: Tables with which something is wrong.
TABLES = {
    "half.csv": table().rename(columns={"debt": "dept"}),
    "few.csv": table(5),
    "lots.csv": table().astype({"debt": object}).replace({"debt": {table()["debt"][2]: "lots"}}),
    "inf.csv": table().replace({"debt": {table()["debt"][2]: np.inf}}),
}
TEXTS = {name: rows.to_csv(index=False) for name, rows in TABLES.items()}


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """A working folder with wrong tables."""
    (folder / "folder.csv").mkdir()
    for name, text in {**TEXTS, "bad.parquet": "no table", "twice.csv": "a,b,a\n1,2,3\n"}.items():
        (folder / name).write_text(text)
    pd.DataFrame({"a": ["x"], "y": [1]}).to_parquet("good.parquet")
    for name, (content, _) in FILES.items():
        (folder / f"wrong_{name}.csv").write_bytes(content)


@pytest.mark.parametrize("command", WRONG)
def test_a_wrong_use_is_told_in_one_line(
    command: str, folder: Path, models: Callable[[str], Path]
) -> None:
    before = sorted(folder.iterdir())
    words = command.split()
    if words[0] == "fit" and "--out" not in command:
        words.append("--out=new")
    done = run(*(models("classifier") if word == "MODEL" else word for word in words))
    assert done.code == 2, done.err
    assert done.out == ""
    name = "" if words[0] == "fitt" else f" {words[0]}"
    assert done.err.startswith(f"pyro-gcm{name}: error: ")
    assert WRONG[command] in done.err
    assert done.err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_a_date_is_refused_with_what_to_do() -> None:
    pd.DataFrame({"day": pd.date_range("2020-01-01", periods=9), "y": range(9)}).to_parquet(
        "d.parquet"
    )
    done = run("fit", "d.parquet", "--target=y", "--out=new")
    assert done.code == 2
    assert "column 'day' of X has dates, times or durations" in done.err


def test_a_saved_model_is_replaced_only_when_asked(models: Callable[[str], Path]) -> None:
    command = "fit", "data.csv", "--target=default", "--out", models("classifier")
    done = run(*command)
    assert done.code == 2
    assert "has a model: overwrite=True (--overwrite) replaces it" in done.err


def test_a_damaged_model_is_told_in_one_line(folder: Path, models: Callable[[str], Path]) -> None:
    (folder / "damaged").mkdir()
    for file in models("classifier").iterdir():
        (folder / "damaged" / file.name).write_bytes(file.read_bytes().replace(b"debt", b"dept"))
    for command in (("info", "damaged"), ("predict", "damaged", "data.csv")):
        done = run(*command)
        assert done.code == 2
        assert "card.json was changed" in done.err
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
    data = table()[["debt", "default"]]
    many = {f"x{at}": range(60) for at in range(200)}
    pd.concat([data, pd.DataFrame(many)], axis=1).to_csv("wide.csv", index=False)
    done = run("fit", "wide.csv", "--target=default", "--increasing=debt", "--out=new", *QUICK)
    assert "│ x97 " in done.out
    assert "│ x98 " not in done.out
    assert "and 102 more" in done.out
    assert len(run("info", "new", "--json").json["columns"]) == 201


def test_an_error_of_the_system_has_no_number() -> None:
    with pytest.raises(OSError, match="Errno") as caught:
        Path("no such file").read_bytes()
    assert one_line(caught.value) == "No such file or directory: 'no such file'"
