"""Files that are written as a whole: after a failure there is what was there before, no half."""

from __future__ import annotations

import io
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file beside `path` and rename it, so that there is the old content or the new one.

    The folder is made if there is none. A link is followed.

    :raises OSError: of the type that fits the cause, with a message that names the file; nothing is
        left beside it.
    """
    with told_of(path):
        target = Path(os.path.realpath(path))
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_synced(partial, content)
            os.replace(partial, target)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
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
def told_of(path: str | Path) -> Iterator[None]:
    """Inside, an error of the system becomes one that says which file could not be written, why."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        message = f"{path} could not be written: {reason}; what was there before is unchanged"
        known = (message,) if error.errno is None else (error.errno, message)
        raise OSError(*known) from error


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file, and wait until the disk has it."""
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk, where the system can open a folder."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
