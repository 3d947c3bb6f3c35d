"""Contents by name in one sequence of bytes: the length of a manifest, the manifest, the contents.

No bit is left unchecked: the manifest has one layout and a digest of itself, it has size and digest
of every content, and there is nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyro_gcm.files import manifest

_LENGTH = re.compile(rb"[1-9][0-9]{0,6}")


def packed(contents: Mapping[str, bytes]) -> bytes:
    """The bytes of contents by name."""
    head = manifest.manifest_of(contents)
    return b"".join([b"%d\n" % len(head), head, *contents.values()])


def unpacked(raw: bytes) -> dict[str, bytes]:
    """The contents by name.

    :raises ValueError: for anything but the bytes that `packed` made; the message goes on after
        the name of what has them.
    """
    length, newline, _ = raw[:8].partition(b"\n")
    if not newline or not _LENGTH.fullmatch(length):
        raise ValueError("does not begin as a file of pyro_gcm does")
    start = len(length) + 1
    end = start + int(length)
    if end > len(raw):
        raise ValueError("was cut: it ends within its manifest")
    try:
        entries = manifest.read_manifest(raw[start:end])
    except ValueError as error:
        raise ValueError(f"has a damaged manifest, which {error}") from None
    sizes = sum(entry["size"] for entry in entries.values())
    if len(raw) - end != sizes:
        raise ValueError(f"has {len(raw)} bytes, but {end + sizes} were saved")
    contents = {}
    for name, entry in entries.items():
        start, end = end, end + entry["size"]
        contents[name] = raw[start:end]
        try:
            manifest.check_content(name, contents[name], entry)
        except ValueError as error:
            raise ValueError(f"is damaged: {error}") from None
    return contents
