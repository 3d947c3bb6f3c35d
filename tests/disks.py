"""Disks on which nothing, or not much, can be written, whoever runs the tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def full_disk(room: int = 100) -> Iterator[None]:
    """Inside, no file of this process can grow beyond so many bytes."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def blocked(folder: Path) -> Path:
    """A place for a file under a file, where no folder can be."""
    place = folder / "no folder"
    place.write_bytes(b"a file")
    return place / "below"


def content(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if not p.is_dir()}
