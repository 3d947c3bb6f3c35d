"""Products in which a row has the same bits at every place of every batch.

Processors multiply rows that start at a multiple of 16 to 64 bytes with another kernel than the
rows between, and matrices of other sizes in another order, and round differently. So predictions,
which run without gradients, multiply as many rows at a time as a block has, and columns of zeros
put them 64-byte steps apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

Made = TypeVar("Made")
_STEP = 64
#: For each module the tensors that something was made of, and that.
_kept: WeakKeyDictionary[nn.Module, tuple[list[Tensor], Any]] = WeakKeyDictionary()


def block_rows(device: torch.device) -> int:
    """Rows that are multiplied at a time; on a GPU a small product takes as long as a large one.

    A multiple of what two of a processor's widest vectors hold, so that no number is computed by
    itself at the end of a tensor.
    """
    return 1024 if device.type == "cuda" else 32


def missing_columns(rows: Tensor) -> int:
    """How many columns of zeros rows [..., columns] are short of a multiple of 64 bytes."""
    return -rows.shape[-1] % (_STEP // rows.element_size())


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `torch.nn.functional.linear` of rows [..., B, columns] and a weight [width, columns].

    Without gradients the product is one of all draws [...] of a block at a time.
    """
    if torch.is_grad_enabled():
        return nn.functional.linear(rows, weight, bias)
    missing = missing_columns(rows)
    if missing:
        rows, weight = pad(rows, (0, missing)), pad(weight, (0, missing))
    block = block_rows(rows.device)
    if rows.dim() < 2 or rows.shape[-2] <= block or rows.shape[-2] % block:
        return nn.functional.linear(rows, weight, bias)
    flat = rows.flatten(0, -2)
    parts = []
    for part in flat.split(len(flat) // rows.shape[-2] * block):
        parts.append(nn.functional.linear(part, weight, bias))
    whole = torch.cat(parts)
    return whole.reshape(*rows.shape[:-1], len(weight))


class Linear(nn.Linear):
    """A layer of `torch.nn.Linear` that multiplies by `products.linear`."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        return linear(input, self.weight, self.bias)


class MaskedLinear(Linear):
    """The same with a mask of its weights, as zuko's flows have it."""

    mask: Tensor

    def forward(self, input: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        return linear(input, self.mask * self.weight, self.bias)


def with_even_rows(module: nn.Module) -> nn.Module:
    """The module, in which every linear layer of torch or zuko is one of these from now on."""
    for part in module.modules():
        if type(part) is nn.Linear:
            part.__class__ = Linear
        elif f"{type(part).__module__}.{type(part).__name__}" == "zuko.nn.MaskedLinear":
            part.__class__ = MaskedLinear
    return module


def kept(module: nn.Module, make: Callable[..., Made], *tensors: Tensor) -> Made:
    """What a function makes of tensors of a module; without gradients once for equal tensors.

    An exported program has what predictions before have made.
    """
    if torch.is_grad_enabled():
        return make(*tensors)
    known = _kept.get(module)
    if torch.compiler.is_compiling():
        return make(*tensors) if known is None else known[1]
    if known is None or not all(map(_are_equal, known[0], tensors)):
        known = _kept[module] = [tensor.clone() for tensor in tensors], make(*tensors)
    made: Made = known[1]
    return made


def _are_equal(known: Tensor, tensor: Tensor) -> bool:
    same = known.dtype == tensor.dtype and known.device == tensor.device
    return same and torch.equal(known, tensor)
