"""Output of a command line: errors in one line, and any character on any console."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def one_line(error: BaseException) -> str:
    """The message of an error for a command line."""
    message = re.sub(r"^\[Errno \d+\] ", "", " ".join(str(error).split()))
    return message or type(error).__name__


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
