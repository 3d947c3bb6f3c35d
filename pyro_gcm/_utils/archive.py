"""Files of which every bit is checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager


class DamagedFile(ValueError):
    """A file or a folder is not what it should be: the message says which, and what is wrong.

    It was damaged, cut, forged, or written by something else.
    """


@contextmanager
def undamaged(what: str, *others: type[Exception], advice: str = "") -> Iterator[None]:
    """Inside, what a file holds is used, and an error shows that it is damaged.

    :param what: the file, with what is wrong if there is an error.
    :param others: types of errors that are about something else; missing packages are, too.
    :param advice: what can be done.
    :raises DamagedFile: for any other error, in one line.
    """
    kept: tuple[type[Exception], ...] = (DamagedFile, ImportError, *others)
    try:
        yield
    except kept:
        raise
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        cause = f"{type(error).__name__} {text}" if isinstance(error, LookupError) else text
        raise DamagedFile(f"{what} {cause}{advice}") from error


def digest(raw: bytes) -> str:
    """The SHA-256 of a content."""
    return hashlib.sha256(raw).hexdigest()


def sealed(raw: bytes) -> bytes:
    """A content after a line with its digest."""
    return f"{digest(raw)}\n".encode() + raw


def unsealed(raw: bytes) -> bytes:
    """The content; used inside `undamaged`.

    :raises ValueError: for anything but the bytes that `sealed` made.
    """
    content = raw[len(digest(b"")) + 1 :]
    if sealed(content) != raw:
        raise ValueError("was changed, or is no such file: it does not begin with its SHA-256")
    return content
