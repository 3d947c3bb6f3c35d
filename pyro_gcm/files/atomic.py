"""Files that are written as a whole: there is the old one or the new one, never half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: str | Path, what: str) -> Iterator[Path]:
    """A name beside `path` to write to, which takes its place at the end, unless there is an error.

    :param what: what the file is, for the error: "checkpoint", say.
    :raises OSError: of its own kind, where the disk is full, the folder is read-only or gone; the
        message names the file and the cause, and what was there before is still there.
    """
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        _sync(partial)
        os.replace(partial, target)
    except OSError as error:
        raise not_written(error, path, what) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def write(path: str | Path, content: bytes, what: str) -> None:
    """Write a file as a whole; the errors are those of `replacing`."""
    with replacing(path, what) as partial:
        partial.write_bytes(content)


def not_written(error: OSError, path: str | Path, what: str) -> OSError:
    """The same kind of error in words: what cannot be written, where and why."""
    cause = error.strerror or str(error) or type(error).__name__
    return type(error)(error.errno, f"{what} {path} cannot be written: {cause}")


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
