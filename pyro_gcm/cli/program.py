"""The program: its commands, its exit codes, and how errors end it."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

import pyro_gcm
from pyro_gcm.cli.audit import audit, json_option
from pyro_gcm.cli.errors import WrongUse, one_line
from pyro_gcm.cli.fit import fit
from pyro_gcm.cli.inspect import info, plot, report
from pyro_gcm.cli.options import joined
from pyro_gcm.cli.output import written
from pyro_gcm.cli.predict import predict, required, surface

PROGRAM = "pyro-gcm"
EXIT_CODES = (
    "Exit codes: 0 done; 1 an audit found a prediction that moves against its direction; 2 wrong "
    "use or bad input, told in one line; 3 an unexpected error; 130 interrupted with Ctrl-C. "
    "PYRO_GCM_DEBUG=1 shows the traceback of an error."
)

app = typer.Typer(
    name=PROGRAM,
    help="Fit models whose predictions provably rise, or fall, in the columns that you name, and "
    "ask them questions. Tables are CSV, Parquet (.parquet) or Arrow (.arrow, .feather) files.",
    epilog=EXIT_CODES,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        written(f"{PROGRAM} {pyro_gcm.__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, help="Print the version and exit.")
    ] = False,
) -> None: ...


_COMMANDS = (fit, predict, surface, required, audit, plot, report, info)
for _command in _COMMANDS:
    app.command(epilog=EXIT_CODES)(_command)


@contextmanager
def any_text() -> Iterator[None]:
    """Inside, what a console cannot show is printed as an escape, such as "\\u50b5"."""
    streams = [s for s in (sys.stdout, sys.stderr) if isinstance(s, io.TextIOWrapper)]
    before = [stream.errors for stream in streams]
    try:
        for stream in streams:
            stream.reconfigure(errors="backslashreplace")
        yield
    finally:
        for stream, errors in zip(streams, before, strict=True):
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
    name = next((word for word in given if word in _NAMES), None)
    program = PROGRAM if name is None else f"{PROGRAM} {name}"

    def tell(kind: str, message: object) -> None:
        print(f"{program}: {kind}{message}", file=sys.stderr)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        tell("warning: ", " ".join(str(message).split()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        try:
            code = app(
                joined(json_option(given)) or ["--help"], prog_name=PROGRAM, standalone_mode=False
            )
        except (KeyboardInterrupt, typer.Abort):
            code = 130
        except SystemExit:  # of typer, where nobody reads the help to its end
            code = 0
        except Exception as error:
            if os.environ.get("PYRO_GCM_DEBUG") == "1":
                traceback.print_exc()
            # The errors of typer about options have their message in a method.
            of_options = callable(getattr(error, "format_message", None))
            if isinstance(error, WrongUse) or of_options:
                told: Any = error
                message = told.format_message() if of_options else str(error)
                hint = f"; see {program} --help" if of_options else ""
                message = message.removesuffix(".") if of_options else message
                tell("error: ", " ".join(message.split()) + hint)
                return 2
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                tell("error: ", "no space is left where the result is written")
                return 2
            tell("unexpected error: ", f"{type(error).__name__}: {one_line(error)}")
            return 3
    if code == 130:
        tell("", "interrupted")
    return int(code or 0)


_NAMES = [command.__name__ for command in _COMMANDS]
