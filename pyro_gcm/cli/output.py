"""What a command says: results on stdout, all else on stderr, and a wrong use in one line."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: Columns of a screen where the output goes to a file.
_WIDTH = 110
#: Rows of a table on a screen, and names that a message lists, at most.
_ROWS, _NAMES = 100, 12
#: What a terminal obeys rather than shows; lines and tabs stay.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: What a spreadsheet runs as a formula, of text that is no number.
_FORMULA = re.compile(r"[=@\t\r]|[-+](?![\d.,]+\Z)")


class WrongUse(Exception):
    """A file, column or value that is not what an option takes; the message is one line."""


@contextmanager
def blamed(on: str = "") -> Iterator[None]:
    """Inside, an error about a value or a file becomes a `WrongUse` of an option.

    :param on: the option; empty where messages name it. Rows are counted from 1, as in a file.
    """
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError, RuntimeError, AttributeError) as error:
        if hasattr(error, "row"):  # of a `InvalidValue`
            error.row += 1
        raise WrongUse(f"{on}: {one_line(error)}" if on else one_line(error)) from error


def one_line(error: BaseException) -> str:
    """The message of an error for a command line."""
    message = re.sub(r"^\[Errno \d+\] ", "", " ".join(str(error).split()))
    return message or type(error).__name__


def instead(name: str, known: Sequence[str], nearness: float = 0.7) -> str:
    """The end of a message about an unknown name: the closest known one, and which there are.

    :param nearness: of the closest one, at least, in 0..1.
    """
    close = difflib.get_close_matches(name, known, 1, nearness) or [
        other for other in known if other.strip().lower() == name.strip().lower()
    ]
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"{meant} (there are: {listed(known)})"


def listed(names: Sequence[str]) -> str:
    """Names as a text, the first ones if there are many."""
    more = f", and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more if names else "none"


@dataclass(frozen=True)
class Output:
    """The streams and files that get the parts of a result.

    :param as_json: whether stdout gets one JSON document and nothing else.
    :param quiet: whether stderr gets warnings and errors alone.
    """

    as_json: bool = False
    quiet: bool = False

    def table(self, title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Show a table for people, of a long one the first rows."""
        if self.as_json:
            return
        from rich.console import Console
        from rich.table import Table

        made = Table()
        for name in names:
            made.add_column(name, overflow="fold")
        shown = list(rows)
        for row in shown[:_ROWS]:
            made.add_row(*(shown_on_terminal(str(entry)) for entry in row))
        if len(shown) > _ROWS:
            made.add_row(f"and {len(shown) - _ROWS:,} more")
        width = None if sys.stdout.isatty() else _WIDTH
        with _unbroken():
            console = Console(width=width, markup=False, emoji=False, highlight=False)
            console.print(shown_on_terminal(title), style="bold")
            console.print(made)

    def text(self, text: str) -> None:
        """Show a result for people."""
        if not self.as_json:
            written(shown_on_terminal(text))

    def note(self, text: str) -> None:
        """Say what was done."""
        if not self.quiet:
            print(shown_on_terminal(text), file=sys.stderr)

    def document(self, document: Mapping[str, Any]) -> None:
        """Print the JSON document, where it was asked for."""
        if self.as_json:
            written(json_text(document))

    def frame(
        self, frame: pd.DataFrame, out: Path | None, safe: bool = False, **about: Any
    ) -> None:
        """Deliver a table: into a file, into the JSON document, or as CSV on stdout.

        :param safe: whether no cell is a formula of a spreadsheet.
        :param about: what else the document says.
        """
        if safe:
            frame = frame.map(_no_formula).rename(columns=_no_formula)
        document = {**about, "rows": len(frame), "columns": list(frame.columns)}
        if out is not None:
            from pyro_gcm.cli.tables import write_table

            write_table(out, frame)
            self.note(f"{len(frame)} rows written to {out}")
            self.document({**document, "out": str(out)})
        elif self.as_json:
            self.document({**document, "values": frame.to_dict("records")})
        else:
            text = frame.to_csv(index=False).removesuffix("\n")
            encoding = sys.stdout.encoding or "utf-8"
            if text.encode(encoding, "ignore").decode(encoding) != text:
                warnings.warn(
                    f"stdout has the encoding {encoding}, and characters that it lacks are written "
                    "as escapes: --out writes a file in UTF-8",
                    stacklevel=1,
                )
            written(shown_on_terminal(text) if sys.stdout.isatty() else text)


def shown_on_terminal(text: str) -> str:
    """A text whose signs that a terminal obeys are escapes, such as \\x1b."""
    return _CONTROL.sub(lambda sign: f"\\x{ord(sign[0]):02x}", text)


def _no_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def json_text(value: Any) -> str:
    """Strict JSON: a missing number is null, and an infinite one the text "inf" or "-inf"."""
    return json.dumps(plain(value), indent=2, allow_nan=False)


def plain(value: Any) -> Any:
    """A value as strict JSON holds it."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numbers and arrays of numpy
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def written(text: str) -> None:
    """Print a result on stdout; nobody may read it to its end."""
    with _unbroken():
        print(text, flush=True)


@contextmanager
def _unbroken() -> Iterator[None]:
    """Inside, a reader that has gone away, such as `head`, is no error."""
    try:
        yield
    except BrokenPipeError:  # what Python flushes at its end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
