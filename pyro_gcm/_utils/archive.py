"""Contents by name with a manifest of which every bit is checked, in a folder or in one file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyro_gcm._utils.plain_data import read, written

#: Number of the format that this version writes; it reads all up to it.
FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


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


def is_name(name: str) -> bool:
    """Whether a name can stand in a manifest; as that of a file it stays within its folder."""
    return _NAME.fullmatch(name) is not None


def manifest_of(contents: Mapping[str, bytes]) -> bytes:
    """The manifest of contents by name, with a digest of its own."""
    return _sealed({name: _entry(raw) for name, raw in contents.items()})


def _sealed(files: Any) -> bytes:
    manifest = {"format": FORMAT, "files": files}
    return written({**manifest, "sha256": _sha256(written(manifest))})


def listed(raw: bytes) -> dict[str, Any]:
    """Return the entry of a manifest for each content, by name.

    Used inside `undamaged`, since a manifest that was forged may raise any error.

    :raises ValueError: for bytes that were changed, a newer format, and names that leave the
        folder; the message goes on after the name of what has them.
    """
    manifest = read(raw)
    is_whole = manifest.pop("sha256") == _sha256(written(manifest))
    if is_whole and manifest["format"] > FORMAT:
        raise ValueError(
            f"has format {manifest['format']}, and this version of pyro_gcm reads up to {FORMAT}: "
            "install a newer one"
        )
    if _sealed(manifest["files"]) != raw:
        raise ValueError("was changed: its SHA-256 is not that of the save")
    files: dict[str, Any] = manifest["files"]
    for name in files:
        if not is_name(name):
            raise ValueError(f"lists {name!r}, which is no name of a saved file")
    return files


def check_content(raw: bytes, entry: Any) -> None:
    """Raise ValueError for a content other than the one that a manifest lists."""
    if entry != _entry(raw):
        size = entry["size"]
        found = "its SHA-256 is not that" if len(raw) == size else f"{len(raw)} bytes for {size}"
        raise ValueError(f"was changed: {found} of the save")


def _entry(raw: bytes) -> dict[str, Any]:
    return {"size": len(raw), "sha256": _sha256(raw)}


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def packed(contents: Mapping[str, bytes]) -> bytes:
    """Contents by name in one sequence of bytes: the length of the manifest, this, and they."""
    head = manifest_of(contents)
    return b"".join([b"%d\n" % len(head), head, *contents.values()])


def unpacked(raw: bytes) -> dict[str, bytes]:
    """The contents by name; used inside `undamaged`, as `listed`.

    :raises ValueError: for anything but the bytes that `packed` made; the message goes on after
        the name of what has them.
    """
    length = re.match(rb"([1-9][0-9]{0,6})\n", raw)
    if length is None:
        raise ValueError("does not begin as a file of pyro_gcm does")
    start, end = length.end(), length.end() + int(length[1])
    contents = {}
    for name, entry in listed(raw[start:end]).items():
        start, end = end, end + entry["size"]
        contents[name] = raw[start:end]
        check_content(contents[name], entry)
    if end != len(raw):
        raise ValueError(f"has {len(raw)} bytes, but {end} were saved")
    return contents
