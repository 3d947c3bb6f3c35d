"""Files that are written as a whole: after a failure there is what was there before, no half.

What is being written is in a folder of its own, beside its place or in it, which a writer that is
killed leaves for the next one to clear away.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Names of what is being written; version 0.2.0 had the other ending for what was replaced.
LEFT_OVER = re.compile(r"\.(.*)\.pyro_gcm-[0-9a-f]{16}\.(?:partial|old)", re.DOTALL)
#: Characters of a name to which others can be added, for any system.
_LONGEST = 50
#: Seconds after which nobody is writing any more, where the system has no locks.
_ABANDONED = 24 * 3600.0


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file beside `path` and rename it, so that there is the old content or the new one.

    The folder is made if there is none. A link is followed, and a file that is replaced leaves its
    permissions and its owner to the new one. A device or a pipe is written to.

    :raises OSError: of the type that fits the cause, with a message that names the file; nothing is
        left beside it.
    """
    with told_of(path):
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            # Nobody waits for ever at a pipe that nobody reads.
            handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
            with os.fdopen(handle, "wb") as device:
                if hasattr(os, "set_blocking"):
                    os.set_blocking(handle, True)
                device.write(content)
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        clear(target.parent, target)
        with temporary(target, target.parent) as partial:
            write_synced(partial / "file", content, like=target)
            os.replace(partial / "file", target)
    with suppress(OSError):  # the file is there
        sync_folder(target.parent)


def write_figure(path: str | Path, figure: Any, **options: Any) -> None:
    """Write a figure of matplotlib as `write_file` does, in the format that the name ends in."""
    image = io.BytesIO()
    figure.savefig(image, format=Path(path).suffix.removeprefix(".") or "png", **options)
    write_file(path, image.getvalue())


@contextmanager
def told_of(path: str | Path) -> Iterator[None]:
    """Inside, an error of the system becomes one that says which file could not be written, why."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        message = f"{path} could not be written: {reason}; what was there before is unchanged"
        known = (message,) if error.errno is None else (error.errno, message)
        raise OSError(*known) from error


def write_synced(path: Path, content: bytes, like: Path) -> None:
    """Write a file, and wait until the disk has it.

    :param like: a file whose permissions, owner and group it gets, as far as the user may give
        them; there need be none. Nobody else can read it before.
    """
    before = os.stat(like) if like.exists() else None
    mode = 0o666 if before is None else 0o600
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if before is not None:
        with suppress(OSError, AttributeError):  # of another user; Windows has no owners
            os.chown(path, -1, before.st_gid)
            os.chown(path, before.st_uid, -1)
        with suppress(OSError):
            os.chmod(path, stat.S_IMODE(before.st_mode))


def sync_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk, where the system can open a folder."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# What is being written


def left_overs(place: Path, target: Path | None = None) -> list[Path]:
    """Return paths that are being written in a folder, or were when their writer was killed.

    :param target: for which it was; None for any.
    """
    found = filter(None, map(LEFT_OVER.fullmatch, sorted(os.listdir(place))))
    stem = target and target.name[:_LONGEST]
    return [place / name.string for name in found if stem in (None, name[1])]


def clear(place: Path, target: Path | None = None) -> None:
    """Remove `left_overs` of writers that are no more, as far as the user may."""
    with suppress(OSError):
        for path in left_overs(place, target):
            with suppress(OSError), held(path, wait=False):
                _remove(path)


@contextmanager
def temporary(target: Path, place: Path) -> Iterator[Path]:
    """Inside, a new folder that no other writer clears away; at the end it is removed.

    :param target: for which it is.
    :param place: the folder in which it is made.
    """
    while True:
        path = place / f".{target.name[:_LONGEST]}.pyro_gcm-{secrets.token_hex(8)}.partial"
        try:
            path.mkdir()
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


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):  # a file of version 0.2.0
        path.unlink()
