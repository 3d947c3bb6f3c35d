"""The program: its commands, its exit codes, and how errors end it."""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.exceptions import TyperException

import pyro_gcm
from pyro_gcm.cli import options
from pyro_gcm.cli.ask import predict, required, surface
from pyro_gcm.cli.audit import audit
from pyro_gcm.cli.fit import fit
from pyro_gcm.cli.output import Output, WrongUse, one_line, shown_on_terminal, written
from pyro_gcm.cli.show import export, info, plot, report

PROGRAM = "pyro-gcm"
EXIT_CODES = (
    "Exit codes: 0 done; 1 an audit found a prediction that moves against its direction; 2 wrong "
    "use or bad input, told in one line; 3 an unexpected error; 130 interrupted with Ctrl-C. "
    "PYRO_GCM_DEBUG=1 shows the traceback of an error."
)

app = typer.Typer(
    name=PROGRAM,
    help="Fit models whose predictions provably rise, or fall, in the columns that you name, and "
    "ask them questions. Tables are CSV, Parquet (.parquet) or Arrow (.arrow, .feather) files. "
    f"{PROGRAM} --version prints the version.",
    epilog=EXIT_CODES,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _add(command: Callable[..., Any]) -> None:
    """Add a command, with the options that all have: its own have the help of its docstring."""
    about, *parameters = (inspect.getdoc(command) or "").split("\n:param ")
    hints = get_type_hints(command, include_extras=True)
    for parameter in parameters:
        name, text = parameter.split(": ", 1)
        kind, option = get_args(hints[name])
        option = copy(option)
        option.help = " ".join(text.split())
        hints[name] = Annotated[kind, option]

    def run(as_json: bool, quiet: bool, large: bool = False, **given: Any) -> Any:
        return command(Output(as_json, quiet), **given)

    _, *own = inspect.signature(command).parameters.values()
    every = {"large": options.Large} if "data" in hints else {}
    every |= {"as_json": options.Json, "quiet": options.Quiet}
    flags = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=False) for n in every]
    hints |= every
    given = [each.replace(annotation=hints[each.name]) for each in (*own, *flags)]
    run.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
    run.__annotations__ = hints
    app.command(command.__name__, help=about, epilog=EXIT_CODES)(run)


_COMMANDS = (fit, predict, surface, required, audit, plot, report, info, export)
for _command in _COMMANDS:
    _add(_command)


@contextmanager
def any_text() -> Iterator[None]:
    """Inside, what a console cannot show is printed as an escape, such as "\\u50b5"."""
    streams = [s for s in (sys.stdout, sys.stderr) if isinstance(s, io.TextIOWrapper)]
    before = [(stream, stream.errors) for stream in streams]
    try:
        for stream in streams:
            stream.reconfigure(errors="backslashreplace")
        yield
    finally:
        for stream, errors in before:
            with suppress(OSError, ValueError):  # closed, or nobody reads it any more
                stream.reconfigure(errors=errors)


@any_text()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    :param argv: arguments, by default those of the process.
    :returns: the exit code: 0 done, 1 an audit found a fall, 2 wrong use or bad input, 3 anything
        unexpected, 130 interrupted.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if given == ["--version"]:
        written(f"{PROGRAM} {pyro_gcm.__version__}")
        return 0
    names = [command.__name__ for command in _COMMANDS]
    program = " ".join([PROGRAM, *[word for word in given if word in names][:1]])

    def tell(message: str) -> None:
        print(shown_on_terminal(f"{program}: {message}"), file=sys.stderr)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        tell("warning: " + " ".join(str(message).split()))

    if sys.stderr is None:  # closed: what belongs there must not go to stdout
        sys.stderr = io.StringIO()
    if sys.stdout is None:
        tell("error: stdout is closed, where results go")
        return 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        try:
            code = app(given or ["--help"], prog_name=PROGRAM, standalone_mode=False)
            if code == 130:  # of typer after Ctrl-C
                tell("interrupted")
            return int(code or 0)
        except SystemExit:  # of typer, where nobody reads the help to its end
            return 0
        except Exception as error:
            if os.environ.get("PYRO_GCM_DEBUG") == "1":
                traceback.print_exc()
            if isinstance(error, TyperException):
                message = " ".join(error.format_message().split()).removesuffix(".")
                tell(f"error: {message}; see {program} --help")
            elif isinstance(error, WrongUse | OSError):
                message = one_line(error)
                counted = "; row 1 is the first below the header"
                tell(f"error: {message}{counted if re.search('row [0-9]', message) else ''}")
            else:
                tell(f"unexpected error: {type(error).__name__}: {one_line(error)}")
                return 3
            return 2
