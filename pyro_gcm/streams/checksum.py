"""A number that tells rows from other rows, whatever blocks they come in."""

from __future__ import annotations

import zlib

from pyro_gcm.streams.source import Block


class Checksum:
    """CRC-32 of rows that are added in order, block by block."""

    def __init__(self) -> None:
        self._of = {"x": 0, "r": 0, "y": 0}

    def add(self, block: Block) -> Checksum:
        """Add the rows of a block, on the CPU; returns itself."""
        for name, column in block.items():
            self._of[name] = zlib.crc32(column.contiguous().numpy().data, self._of[name])
        return self

    @property
    def value(self) -> int:
        """The checksum of all rows that were added."""
        return zlib.crc32(repr(sorted(self._of.items())).encode())
