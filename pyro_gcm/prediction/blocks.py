"""Rows in blocks, so that a row has the same bits wherever it stands.

Products multiply one block at a time (`nets.products`), functions see whole vectors, and draws are
added in one order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from pyro_gcm.nets.products import block_rows

#: Numbers that two of a processor's widest vectors hold. Functions round otherwise for a number
#: that is computed by itself at the end of a tensor, and none is where there are multiples of it.
_LANES = 16
#: Draws of rows that are evaluated at a time, where there are so many.
PASS = 1 << 15


def blocks(*columns: Tensor, draws: int) -> Iterator[tuple[int, list[Tensor]]]:
    """Some rows of row-aligned columns at a time: how many count, and they, in whole blocks.

    The last row is repeated until the last block is full.

    :param draws: of every row; there are as many blocks at a time as PASS allows.
    """
    rows, device = len(columns[0]), columns[0].device
    block = block_rows(device)
    many = max(1, (block // 32) * PASS // (draws * block)) * block
    for start in range(0, rows, many):
        count = min(many, rows - start)
        if count % block == 0:
            yield count, [column[start : start + count].contiguous() for column in columns]
        else:
            place = torch.arange(start, start + count + -count % block, device=device)
            yield count, [column[place.clamp(max=rows - 1)] for column in columns]


def in_blocks(function: Callable[..., Tensor], *columns: Tensor, draws: int) -> Tensor:
    """`function` of row-aligned columns, some blocks at a time, without the padding."""
    return torch.cat([function(*rows)[:count] for count, rows in blocks(*columns, draws=draws)])


def whole_vectors(rows: int, draws: int) -> int:
    """At least so many rows, of which all draws together fill whole vectors."""
    step = _LANES // math.gcd(_LANES, draws)
    return -(-rows // step) * step


def mean_of_draws(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean [..., b] of values [..., N, b], added by halving.

    It rises with every value, also under weights [N, b], which sum to 1: rounding keeps the order
    of products with one factor and of sums with one term, and it is held within the values.
    """
    count, bounds = values.shape[-2], None
    if weights is not None:
        bounds, values = (values.amin(-2), values.amax(-2)), values * weights
    missing = (1 << (count - 1).bit_length()) - count
    values = pad(values, (0, 0, 0, missing)) if missing else values
    while values.shape[-2] > 1:
        half = values.shape[-2] // 2
        values = values[..., :half, :] + values[..., half:, :]
    mean = values[..., 0, :]
    return mean / count if bounds is None else mean.clamp(*bounds)
