"""Paths that the system can have, checked before there is any work for nothing."""

from __future__ import annotations

import os
from pathlib import Path

#: Bytes of a name, and of a path, at most.
_OF_NAME, _OF_PATH = 255, 4095


def usable(named: str | os.PathLike[str]) -> Path:
    """Return a path that the system can look up, whether or not there is something.

    :raises ValueError: for a path that it cannot have; the message goes on after what names it.
    :raises PermissionError: for one in a folder that the user may not look into.
    """
    text, path = os.fspath(named), Path(named)
    if not text:
        raise ValueError("must be a path, got an empty text")
    if "\0" in text:
        raise ValueError(f"must be a path without the character NUL, got {text!r:.80}")
    try:
        longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
        whole = len(os.fsencode(text))
    except UnicodeEncodeError as error:
        raise ValueError(f"must be a path that the system can write, got {text!r:.80}") from error
    for size, most, of in ((longest, _OF_NAME, "with names"), (whole, _OF_PATH, "as a whole")):
        if size > most:
            raise ValueError(f"must be a path {of} of at most {most} bytes, got {size}: {text:.40}")
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except PermissionError as error:
        raise PermissionError(f"{path} is in a folder that you may not look into") from error
    except OSError as error:
        raise ValueError(f"must be a path that leads to a file, got {path}: {error}") from error
    return path


def check_writable(path: Path) -> None:
    """Refuse a place where the user can write no file.

    :raises OSError: with the file and the reason.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} could not be written: it is a folder")
    place = Path(os.path.abspath(path)).parent
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(f"{path} could not be written: {place} is no folder")
    if not os.access(place, os.W_OK):
        raise PermissionError(f"{path} could not be written: {place} cannot be written to")
