"""Wrong uses of the command line, each told in one line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

#: Names that a message lists, at most.
_MOST = 12


class WrongUse(Exception):
    """A file, column or value that is not what an option takes; the message is one line."""


def one_line(error: BaseException) -> str:
    """The message of an error for a command line."""
    message = re.sub(r"^\[Errno \d+\] ", "", " ".join(str(error).split()))
    return message or type(error).__name__


def instead(name: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown name: the closest known one, and which there are."""
    close = difflib.get_close_matches(name, known, 1, 0.7) or [
        other for other in known if other.strip().lower() == name.strip().lower()
    ]
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"{meant} (there are: {listed(known)})"


def listed(names: Sequence[str]) -> str:
    """Names as a text, the first ones if there are many."""
    more = f", and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more if names else "none"


@contextmanager
def blamed(on: str = "") -> Iterator[None]:
    """Inside, an error about a value or a file becomes a `WrongUse` of an option.

    :param on: the option; empty where messages name it. Rows are counted from 1, as in a file.
    """
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        if hasattr(error, "row"):  # of a `WrongCell`
            error.row += 1
        raise WrongUse(f"{on}: {one_line(error)}" if on else one_line(error)) from error
