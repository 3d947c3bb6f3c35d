"""New files and folders beside their place, which a writer that is killed leaves for the next."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Endings of the names of what is written, and of what is replaced.
PARTIAL, OLD = "partial", "old"
_NAME = re.compile(rf"\.(.*)\.pyro_gcm-[0-9a-f]{{16}}\.({PARTIAL}|{OLD})", re.DOTALL)
#: Bytes of a name to which others can be added.
_LONGEST = 200
#: Seconds after which nobody is writing any more, where the system has no locks.
_ABANDONED = 24 * 3600.0


def is_left_over(name: str) -> bool:
    """Whether a name is like those that `temporary` gives."""
    return _NAME.fullmatch(name) is not None


def left_overs(place: Path, ending: str, target: Path | None = None) -> list[Path]:
    """What is being written in a folder, or was when its writer was killed.

    :param target: for which it was; None for any.
    """
    found = []
    for name in sorted(os.listdir(place)):
        match = _NAME.fullmatch(name)
        if match and match[2] == ending and (target is None or match[1] == _stem(target)):
            found.append(place / name)
    return found


def clear(place: Path, ending: str, target: Path | None = None) -> None:
    """Remove `left_overs` of writers that are no more, as far as the user may."""
    with suppress(OSError):
        for path in left_overs(place, ending, target):
            with suppress(OSError), held(path, wait=False):
                _remove(path)


@contextmanager
def temporary(
    target: Path, place: Path, ending: str, make: Callable[[Path], object] = Path.mkdir
) -> Iterator[Path]:
    """Inside, a new file or folder that no other writer clears away; at the end it is removed.

    :param target: for which it is.
    :param place: the folder in which it is made.
    """
    while True:
        path = place / f".{_stem(target)}.pyro_gcm-{secrets.token_hex(8)}.{ending}"
        try:
            make(path)
            with held(path):
                if path.exists():  # nobody has cleared it away before it was held
                    yield path
                    return
        finally:
            _remove(path)


@contextmanager
def held(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Inside, no other process holds a file or a folder, where the system has locks.

    :param wait: whether to wait for a process that holds it.
    :raises BlockingIOError: if it is held and is not waited for, or may be.
    """
    if fcntl is None:
        if not wait and time.time() - path.lstat().st_mtime < _ABANDONED:
            raise BlockingIOError(f"{path} may be written to")
        yield
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            if not wait:
                raise
        yield
    finally:
        with suppress(OSError):  # also of a process that was forked meanwhile
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _stem(target: Path) -> str:
    """The name of a target, or its digest where that is too long to be added to."""
    name = os.fsencode(target.name)
    return target.name if len(name) <= _LONGEST else hashlib.sha256(name).hexdigest()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
