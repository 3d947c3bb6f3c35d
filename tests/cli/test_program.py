"""The program as a whole: help, quick imports, the documented session, signals."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import run

import pyro_gcm
from pyro_gcm import cli
from pyro_gcm.cli import program

ROOT = Path(cli.__file__).parent.parent.parent
DOCUMENT = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
COMMANDS = ("fit", "predict", "surface", "required", "audit", "plot", "report", "info")


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


#: Options that make a documented command quick; the second model replaces the first one.
QUICK = {"fit": ["--members=2", "--overwrite"], "audit": ["--pairs=60"], "report": ["--pairs=60"]}


def printed(line: str) -> str:
    """What a command prints to the standard output."""
    arguments = shlex.split(line)
    done = run(*arguments, *QUICK.get(arguments[0], []), "--quiet")
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


@pytest.mark.long(keep=0)
def test_an_interrupt_ends_with_one_line_and_nothing_written(tmp_path: Path) -> None:
    options = "--target=default", "--increasing=debt", "--out=new", "--epochs=100000", "--quiet"
    options += ("--positive=yes",)
    command = [sys.executable, "-m", "pyro_gcm.cli", "fit", str(tmp_path / "data.csv"), *options]
    pipes: Any = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    # Where this process ignores the signal, as in the background of a shell, so would its child.
    heed: Any = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    program = subprocess.Popen(command, cwd=ROOT, **pipes, **heed)
    assert program.stdout is not None
    for line in program.stdout:  # the table of columns comes before the training
        if "└" in line.decode():
            break
    time.sleep(5.0)
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=60)
    assert (program.returncode, err.decode()) == (130, "pyro-gcm fit: interrupted\n")
    assert not (ROOT / "new").exists()


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
