"""Clipping with a cheap gradient."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional


def clip(values: Tensor, low: float = -math.inf, high: float = math.inf) -> Tensor:
    """`values.clamp(low, high)`, whose gradient here takes one operation instead of five.

    The gradient is 0 at the bounds, where that of `clamp` is 1.
    """
    return functional.hardtanh(values, low, high)
