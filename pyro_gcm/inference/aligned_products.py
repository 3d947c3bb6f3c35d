"""Linear layers whose rows have the same bits wherever in a block they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import linear, pad
from torch.overrides import TorchFunctionMode


class AlignedProducts(TorchFunctionMode):
    """Inside, `torch.nn.functional.linear`, and so every linear layer, treats all rows alike.

    Some processors multiply rows that start at a multiple of 16 or 32 bytes with another kernel
    than the rows between, and round differently. Columns of zeros make rows 64-byte steps apart.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Pads the columns of a linear layer; passes everything else on."""
        if func is torch.nn.functional.linear:
            return _aligned(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _aligned(input: Any, weight: Any, bias: Any = None) -> Any:
    missing = -input.shape[-1] % (64 // input.element_size())
    return linear(pad(input, (0, missing)), pad(weight, (0, missing)), bias)
