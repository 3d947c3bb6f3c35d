"""The program as a whole: help, quick imports, the documented session, signals, wrong uses."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest
from command_line import QUICK, run
from loans import table

import pyro_gcm
from pyro_gcm import cli
from pyro_gcm.cli import program

ROOT = Path(cli.__file__).parent.parent.parent
DOCUMENT = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
COMMANDS = ("fit", "predict", "surface", "required", "audit", "plot", "report", "info", "export")


def test_help_has_sentences_an_example_and_the_exit_codes() -> None:
    for command in COMMANDS:
        done = run(command, "--help")
        assert (done.code, done.err) == (0, "")
        text = " ".join(done.out.split())
        assert f"Example: pyro-gcm {command} " in text
        assert "Exit codes: 0 done; 1 an audit found" in text


def test_version_is_that_of_the_package() -> None:
    done = run("--version")
    assert done == (0, f"pyro-gcm {pyro_gcm.__version__}\n", "")


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys; from pyro_gcm.cli import main; main(['fit', '--help']); main([]);"
        "print(*{'torch', 'pandas', 'numpy', 'matplotlib', 'sklearn'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "Commands:" in done.stdout
    assert done.stdout.splitlines()[-1] == ""


def test_a_column_that_is_not_there_is_told_before_slow_imports(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("debt,y\n1,0\n")
    code = (
        "import sys; from pyro_gcm.cli import main; "
        "main(['fit', 'data.csv', '--target=y', '--increasing=dept', '--out=model']);"
        "print(*{'torch', 'pyro', 'sklearn'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    options: Any = {"capture_output": True, "text": True, "check": True, "env": environment}
    done = subprocess.run(command, cwd=tmp_path, **options)
    assert "has no column 'dept'; did you mean 'debt'?" in done.stderr
    assert done.stdout == "\n"


#: Options that make a documented command quick; the second model replaces the first one.
SHORTER = {"fit": ["--members=2", "--overwrite"], "audit": ["--pairs=60"], "report": ["--pairs=60"]}


def printed(line: str) -> str:
    """What a command prints to the standard output."""
    arguments = shlex.split(line)
    done = run(*arguments, *SHORTER.get(arguments[0], []), "--quiet")
    assert done.code == 0, (line, done.err)
    return done.out


@pytest.mark.long(keep=0)  # CI runs it
def test_the_documented_session_runs_and_prints_what_the_page_shows() -> None:
    for example in re.findall(r"```python\n(.*?)```", DOCUMENT, flags=re.DOTALL):
        exec(compile(example, "page.md", "exec"), {})
    (session,) = re.findall(r"```bash\n(.*?)```", DOCUMENT, flags=re.DOTALL)
    for line in session.splitlines():
        printed(line.removeprefix("pyro-gcm "))
    for name in re.findall(r"--(?:out|json|plot) (\S+\.\S+)", session):
        assert Path(name).stat().st_size > 0
    for line in re.findall(r"^\$ pyro-gcm (.*)$", DOCUMENT, flags=re.MULTILINE):
        out, end = printed(line), {"fit": "┘", "audit": ":"}.get(line.partition(" ")[0])
        if end:
            assert f"$ pyro-gcm {line}\n{out[: out.index(end)]}" in DOCUMENT
    assert Path("report.html").stat().st_size > 100_000
    (header,) = re.findall(r"scores\.csv\n(mean,.*)\n", DOCUMENT)
    assert Path("scores.csv").read_text().startswith(header)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is full")
def test_a_full_disk_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        with open("/dev/full", "w") as file:
            file.write("row")

    monkeypatch.setattr(program, "app", full)
    done = run("info", "MODEL")
    assert (done.code, done.out) == (2, "")
    assert done.err == "pyro-gcm info: error: No space left on device\n"


@pytest.mark.skipif(os.name != "posix", reason="pipes of a POSIX shell")
def test_a_reader_that_goes_away_is_no_error() -> None:
    code = "from pyro_gcm.cli.output import written; written('row\\n' * 100_000)"
    command = f'{sys.executable} -c "{code}" | head -n 1; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "row\n", "")


# Wrong uses: one line that names the option, and nothing is written


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
    f"predict {LONG} data.csv": "File name too long",
    f"plot {ASK} --column=debt --out=a.png --values=1e308,-1e308": (
        "--values must be numbers of at most 1e+301 in size, such as 1,2,5, or low:high:count"
    ),
    "fit good.parquet --target=y --text=a": "--text is for CSV files, whose columns have no types",
    f"{FIT} --target=defualt": (
        "--target: data.csv has no column 'defualt'; did you mean 'default'? "
        "(there are: id, income, debt, owner, job, default, loss, grade, time, event, claims, span)"
    ),
    f"{DEFAULT} --increasing=income,debts": "--increasing: data.csv has no column 'debts'; did",
    f"{DEFAULT} --order=job=A,B": "--order must have all levels of a text column from low",
    f"{DEFAULT} --increasing=debt --decreasing=debt": "--decreasing both name 'debt'",
    f"{DEFAULT} --increasing= --decreasing=debt": "--increasing must name columns, such as a,b, ",
    f"predict {ASK} --keep=,": "--keep must name columns, such as a,b, got",
    f"{DEFAULT} --increasing=debt,debt": "--increasing and --increasing both name 'debt'",
    f"{FIT} --target=income": "must have a value in every row, and 7 of 60 are missing, the first",
    f"{FIT} --target=grade": (
        "--target 'grade' must have two values, or numbers, and has 3 values (high, low, medium); "
        "ordered levels need --levels, such as --levels low,medium,high, and classes without an "
        "order --kind classifier"
    ),
    f"{FIT} --target=grade --kind=classifier --increasing=debt": (
        "must say for which class of 'grade', as in high:debt, got 'debt'"
    ),
    f"{FIT} --target=grade --increasing=hihg:debt": "'hihg', and 'grade' has no such value",
    f"{FIT} --target=grade --increasing=low:debt,low:debt": "--increasing both name 'low:debt'",
    f"{FIT} --target=grade --increasing=low:dept": "has no column 'low:dept'",
    f"{FIT} --target=grade --increasing=low:debt --concave=debt": "--concave is for two classes",
    f"{DEFAULT} --increasing=no:debt": "are for a --target of three or more",
    f"{DEFAULT} --decreasing=debt --concave=debt": "must name columns of --increasing, got 'debt'",
    f"{FIT} --target=loss --increasing=debt --concave=debt": "--concave is for --kind classifier",
    f"{FIT} --target=grade --levels=low,high": (
        "--target 'grade' must have labels among --levels, ['low', 'high'], got 'medium' in row "
    ),
    f"{DEFAULT} --kind=binary": "Invalid value for '--kind': ",
    f"{DEFAULT} --kind=classifier --levels=no,yes": "--levels is for --kind ordinal, and this one ",
    f"{DEFAULT} --horizon=3": "--horizon is for --kind survival or competing, and this one",
    f"{DEFAULT} --kind=regressor": "--target 'default' must have numbers, and has text, such as ",
    f"{FIT} --target=time --kind=survival": "--kind survival needs --event, the column that says",
    f"{FIT} --target=time --event=debt": "--event 'debt' must have 1 (the event occurred) and 0",
    f"{DEFAULT} --positive=maybe": "--target 'default' has no value 'maybe' (there are: no, yes",
    f"{DEFAULT} --epochs=many": "Invalid value for '--epochs': ",
    f"{DEFAULT} --test-share=0.001": "--test-share: The test_size = 1 should be greater or equal",
    "fit data.csv --target=default --out=.": "--out: folder ",
    "fit data.csv --target=default --out=MODEL": "has a model: overwrite=True (--overwrite) replac",
    FIT: "Missing option '--target'; see pyro-gcm fit --help",
    f"{DEFAULT} --increase=debt": "No such option: --increase",
    "fitt data.csv": "No such command 'fitt'",
    "predict modle data.csv": "MODEL: folder modle does not exist, or is no folder",
    "predict MODEL half.csv": "DATA: half.csv has no column 'debt'; did you mean 'dept'?",
    "predict MODEL lots.csv": (
        "DATA lots.csv: column 'debt' of X had numbers in fit, got text or categories, such as "
        "'lots' in row 3"
        "; row 1 is the first below the header"
    ),
    f"predict {ASK} --out=a.txt": "--out must end in .csv, .parquet, .arrow, .feather, got a.txt",
    f"predict {ASK} --out=data.csv": "--out must be another file than the ones that are read, got ",
    f"predict {ASK} --quantiles=0.5": "--quantiles is for models of numbers and times, got a ",
    f"required {ASK} --column=job --probability=0.1": "--column must have a direction (these",
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
    "info .": "MODEL: . has no model that can be read: card.json [Errno 2] No such file",
}
ROWS = b"a,b,y\n" + b"1,2,0\n2,3,1\n" * 20
#: A table that is not what it seems, by its content: the words of the error.
FILES = {
    b"": "cannot be read: it is empty",
    b"a,b,y\n": "has no rows",
    b"\xef\xbb\xbfa;b\n1;2\n": "must have columns separated by commas, got 'a;b'",
    "a,näme,y\n".encode("latin-1"): "'utf-8' codec can't decode byte 0xe4",
    # pandas would take the first column for the names of the rows, and shift all others.
    b"a,b,y\n" + b"1,2,0,9\n" * 20: "more fields than the header, which names 3 columns",
    ROWS + b"1,2,3,4,0\n": "C error: Expected 3 fields in line 42, saw 5",
    ROWS + b'1,"2,0\n': "C error: EOF inside string",
    ROWS.replace(b"y", b"y "): "has no column 'y'; did you mean 'y '?",
    ROWS.replace(b",1\n", b",0\n"): "--target 'y' must have two values, or numbers",
}


def test_a_wrong_use_is_told_in_one_line(folder: Path, models: Callable[[str], Path]) -> None:
    model, data = models("classifier"), table()
    (folder / "folder.csv").mkdir()
    (folder / "bad.parquet").write_text("no table")
    pd.DataFrame({"a": ["x"], "y": [1]}).to_parquet("good.parquet")
    third = data["debt"][2]
    data.rename(columns={"debt": "dept"}).to_csv("half.csv", index=False)
    table(5).to_csv("few.csv", index=False)
    data.astype({"debt": object}).replace({"debt": {third: "lots"}}).to_csv("lots.csv")
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


def test_other_ends_have_codes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    unexpected = "pyro-gcm info: unexpected error: KeyError: 'lost'\n"
    for error, code, message in (
        (KeyboardInterrupt(), 130, "pyro-gcm info: interrupted\n"),
        (KeyError("lost"), 3, unexpected),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("pyro_gcm.cli.saved.open_model", mock.Mock(side_effect=error))
            assert run("info", "model") == (code, "", message)
            patch.setenv("PYRO_GCM_DEBUG", "1")
            done = run("info", "model")
            assert (done.code, "Traceback" in done.err) == (code, code == 3)


def test_a_column_with_one_value_is_warned_of() -> None:
    table()[["debt", "default"]].assign(flat=5.0).to_csv("flat.csv", index=False)
    done = run(
        *("fit", "flat.csv", "--target=default", "--positive=yes", "--increasing=debt,flat"),
        *("--out=new", *QUICK),
    )
    assert done.code == 0
    assert done.err == (
        "pyro-gcm fit: warning: X has one value in column 'flat', which has a direction: what "
        "other values do cannot be learned\n"
    )


def test_of_many_columns_the_first_are_shown_and_all_are_read() -> None:
    many = pd.DataFrame({f"x{at}": range(60, 0, -1) for at in range(200)})
    pd.concat([table()[["debt", "default"]], many], axis=1).to_csv("wide.csv", index=False)
    done = run("fit", "wide.csv", "--target=default", "--increasing=debt", "--out=new", *QUICK)
    assert "│ x97 " in done.out
    assert "│ x98 " not in done.out
    assert "and 102 more" in done.out
    assert len(run("info", "new", "--json").json["columns"]) == 201
