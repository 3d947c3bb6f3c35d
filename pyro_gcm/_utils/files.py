"""Files that are written as a whole, after a failure the old or the new one; their damage."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

#: Bytes that `check_writable` writes.
_ROOM = 1 << 20


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


def write_file(path: str | Path, content: bytes) -> None:
    """Write `.NAME.partial` beside a file and rename it, so that there is the old or the new file.

    The folder is made if there is none. A link is followed, and a file that is replaced leaves its
    permissions and its owner to the new one. A device is written to.

    :raises OSError: of the type that fits the cause, with a message that names the file.
    """
    with told_of(path):
        if os.path.exists(path) and not os.path.isfile(path):
            Path(path).write_bytes(content)
            return
        target = Path(os.path.realpath(path))
        partial = target.with_name(f".{target.name}.partial")
        target.parent.mkdir(parents=True, exist_ok=True)
        before = target.stat() if target.exists() else None
        mode = 0o666 if before is None else 0o600
        try:
            no_link = getattr(os, "O_NOFOLLOW", 0)  # that somebody may have put there
            with open(partial, "wb", opener=lambda n, how: os.open(n, how | no_link, mode)) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if before is not None:
                with suppress(OSError, AttributeError):  # of another user; Windows has no owners
                    os.chown(partial, before.st_uid, before.st_gid)
                partial.chmod(stat.S_IMODE(before.st_mode))
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)


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


def usable(named: str | os.PathLike[str]) -> Path:
    """Return a path that the system can look up, whether or not there is something.

    :raises ValueError: for a path that it cannot have.
    :raises OSError: for one that is too long, or in a folder that the user may not look into.
    """
    if not os.fspath(named):
        raise ValueError("a path must not be empty")
    with suppress(FileNotFoundError, NotADirectoryError):
        os.stat(named)
    return Path(named)


def check_writable(path: Path, *, is_folder: bool = False) -> None:
    """Write a temporary file, of the size of a small model, where a file or a folder is to be.

    :raises OSError: with the path and the reason, if nothing, or not as much, can be written there.
    """
    with told_of(path):
        if path.is_dir() and not is_folder:
            raise IsADirectoryError("it is a folder")
        home = path.absolute() if is_folder else path.absolute().parent
        while not home.exists():
            home = home.parent
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(bytes(_ROOM))
