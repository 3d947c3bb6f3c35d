"""What was written, by name, size and SHA-256, in bytes of which each is checked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from pyro_gcm.files import strict_json

#: Number of the format that this version writes; it reads all up to it.
FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
#: Bytes above which a manifest is none.
LARGEST = 1 << 22


def is_name(name: str) -> bool:
    """Whether a name can stand in a manifest; as that of a file it stays within its folder."""
    return _NAME.fullmatch(name) is not None


def manifest_of(contents: Mapping[str, bytes]) -> bytes:
    """The manifest of contents by name."""
    entries = {name: {"size": len(raw), "sha256": sha256(raw)} for name, raw in contents.items()}
    content: dict[str, Any] = {"format": FORMAT, "files": entries}
    return strict_json.written({**content, "sha256": sha256(strict_json.written(content))})


def read_manifest(raw: bytes) -> dict[str, dict[str, Any]]:
    """Entries with size and sha256 by name, in their order.

    :raises ValueError: for anything but the bytes of a manifest; the message goes on after the name
        of what has them.
    """
    if len(raw) > LARGEST:
        raise ValueError("is too large for a manifest")
    manifest = strict_json.read(raw)
    if not isinstance(manifest, dict):
        raise ValueError("is no JSON object")
    digest = manifest.pop("sha256", None)
    if digest != sha256(strict_json.written(manifest)):
        raise ValueError("was changed: its SHA-256 is not that of the save")
    version = manifest.get("format")
    if type(version) is not int or version < 1:
        raise ValueError(f"has the format {version!r}, which is none")
    if version > FORMAT:
        raise ValueError(
            f"has format {version}, and this version of pyro_gcm reads up to {FORMAT}: "
            "install a newer one"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or manifest.keys() != {"files", "format"}:
        raise ValueError("lists no files")
    for name, entry in files.items():
        if not is_name(name):
            raise ValueError(f"lists {name!r}, which is no name of a saved file")
        if not isinstance(entry, dict) or entry.keys() != {"sha256", "size"}:
            raise ValueError(f"must have size and sha256 of {name}")
        size, digest = entry["size"], entry["sha256"]
        if type(size) is not int or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ValueError(f"has no valid size or sha256 of {name}")
    return files


def check_content(name: str, raw: bytes, entry: Mapping[str, Any]) -> None:
    """Refuse a content that is not the one of its entry.

    :raises ValueError: with the name and what is wrong.
    """
    if len(raw) != entry["size"] or sha256(raw) != entry["sha256"]:
        raise ValueError(f"{name} was changed: its SHA-256 is not that of the save")


def sha256(raw: bytes) -> str:
    """The digest in hexadecimal digits."""
    return hashlib.sha256(raw).hexdigest()
