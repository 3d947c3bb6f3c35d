"""Blocks of rows."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

#: Most rows of a block that is read from a table or from files.
BLOCK_ROWS = 1 << 14

#: Rows "x" [b, x_dim], "r" [b, r_dim] and "y" [b], each in float32 or float64; NaN where a value is
#: missing.
Block = dict[str, Tensor]


def between(block: Block, first: int, last: int) -> Block:
    """The rows first..last - 1 of a block, not copies."""
    return {name: column[first:last] for name, column in block.items()}


def selected(block: Block, index: Tensor | npt.NDArray[np.int64]) -> Block:
    """Copies of the rows `index` of a block, in any order."""
    at = torch.as_tensor(index)
    return {name: column.index_select(0, at) for name, column in block.items()}


def joined(blocks: list[Block]) -> Block:
    """Copies of the rows of one block after the other."""
    return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}


def gathered(blocks: Iterator[Block], least: int) -> Iterator[Block]:
    """The same rows in blocks of `least` rows or more, but for the last."""
    held: list[Block] = []
    count = 0
    for block in blocks:
        if not held and len(block["y"]) >= least:
            yield block
            continue
        held.append({name: column.clone() for name, column in block.items()})
        count += len(block["y"])
        if count >= least:
            yield joined(held)
            held, count = [], 0
    if held:
        yield joined(held)


def checksum(block: Block, before: int = 0) -> int:
    """A number that tells rows from other rows, whatever blocks they come in: their CRC-32.

    :param before: that of the rows before this block.
    """
    matrices = {**block, "y": block["y"][:, None]}
    columns = [matrices[name].contiguous().numpy().view(np.uint8) for name in "xry"]
    return zlib.crc32(np.concatenate(columns, 1).data, before)
