"""Files that are written as a whole: after a failure there is what was there before, no half."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyro_gcm._utils.interrupts import shielded
from pyro_gcm.files.left_overs import PARTIAL, clear, temporary


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
        clear(target.parent, PARTIAL, target)
        # Nobody else can read it before it has its permissions.
        mode = 0o600 if target.exists() else 0o666
        with (
            shielded(),
            temporary(target, target.parent, PARTIAL, lambda p: p.touch(mode, False)) as partial,
        ):
            write_synced(partial, content, like=target)
            os.replace(partial, target)
    with suppress(OSError):  # the file is there
        sync_folder(target.parent)


def write_figure(path: str | Path, figure: Any, **options: Any) -> None:
    """Write a figure of matplotlib as `write_file` does, in the format that the name ends in."""
    image = io.BytesIO()
    figure.savefig(image, format=Path(path).suffix.removeprefix(".") or "png", **options)
    write_file(path, image.getvalue())


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


def write_synced(path: Path, content: bytes, like: Path | None = None) -> None:
    """Write a file, and wait until the disk has it.

    :param like: a file whose permissions, owner and group it gets, as far as the user may give
        them; there need be none.
    """
    before = os.stat(like) if like is not None and like.exists() else None
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
