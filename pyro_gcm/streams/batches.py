"""Batches that an iterable gives, such as a DataLoader, as a source of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from pyro_gcm._utils.validation import as_tensor, kind, place, same_rows, shown
from pyro_gcm.streams.blocks import Block, checksum

_NAMES = ("x", "r", "y")
_CPU = torch.device("cpu")


class BatchSource:
    """The rows of the batches that an iterable gives, anew and in the same order at each pass.

    :param data: its items are x [b, x_dim], r [b, r_dim] and y [b], as a tuple, a list or a
        dictionary with these names. What they have is looked at when they are read.
    :raises TypeError: if it cannot be iterated.
    :raises ValueError: if it can be iterated only once, or shuffles.
    """

    rows: int | None = None
    shards: list[int] | None = None

    def __init__(self, data: Iterable[Any]) -> None:
        if isinstance(data, DataLoader):
            _check_order(data)
        elif iter(data) is data:
            raise ValueError(
                f"data must be iterable more than once, got {type(data).__name__}, which ends "
                "after one pass: pass a DataLoader, a list, or an object whose __iter__ starts "
                "anew"
            )
        self._data = data
        self._first: int | None = None  # checksum of the first batch
        self.identity: dict[str, Any] = {"kind": "batches"}

    def read(self, shard: int) -> Iterator[Block]:
        """All rows, in the batches of the data.

        :raises TypeError: for a batch that is not as it has to be; the message has its number.
        :raises ValueError: likewise; for other widths or types than those of the first batch, and
            for a first batch that is not that of the first pass.
        """
        with torch.random.fork_rng(devices=[]):  # from whose generator a DataLoader takes a seed
            batches = iter(self._data)
        kinds: dict[str, str] = {}
        for number, item in enumerate(batches):
            block = _block(item, number)
            if number == 0:
                kinds = {name: _told(column) for name, column in block.items()}
                first = checksum(block)
                self._first = first if self._first is None else self._first
                if first != self._first:
                    raise ValueError(
                        "data must give the same batches in the same order at each pass, got "
                        "another first batch than before: `fit` shuffles by itself"
                    )
            for name, column in block.items():
                if _told(column) != kinds[name]:
                    raise ValueError(
                        f"{name} of batch {number} must be like that of batch 0, {kinds[name]}, "
                        f"got {_told(column)}"
                    )
            yield block

    def place(self, row: int, column: str | int | None = None) -> str:
        """Where a row, or a value of it, is, in words."""
        return f"{place(row, column)} of data"


def _block(item: Any, number: int) -> Block:
    if isinstance(item, Mapping):
        if set(item) != set(_NAMES):
            raise ValueError(f"batch {number} must have x, r and y, got {shown(list(item))}")
        item = [item[name] for name in _NAMES]
    if not isinstance(item, tuple | list) or len(item) != len(_NAMES):
        got = f" of {len(item)}" if isinstance(item, tuple | list) else ""
        raise TypeError(f"batch {number} must be a tuple (x, r, y), got {kind(item)}{got}")
    block = {
        name: as_tensor(f"{name} of batch {number}", value, _CPU)
        for name, value in zip(_NAMES, item, strict=True)
    }
    if block["y"].dim() == 2 and block["y"].shape[1] == 1:
        block["y"] = block["y"][:, 0]
    for name, column in block.items():
        wanted = "[rows]" if name == "y" else f"[rows, {name}_dim]"
        if column.dim() != (1 if name == "y" else 2):
            raise ValueError(
                f"{name} of batch {number} must have shape {wanted}, got {tuple(column.shape)}"
            )
    try:
        same_rows(**block)
    except ValueError as error:
        raise ValueError(f"batch {number}: {error}") from error
    return block


def _told(column: torch.Tensor) -> str:
    """The type and the width of a column, in words."""
    width = "" if column.dim() == 1 else f" with {column.shape[1]} columns"
    return f"{column.dtype}{width}"


def _check_order(loader: DataLoader[Any]) -> None:
    random = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
    for sampler in (loader.sampler, getattr(loader.batch_sampler, "sampler", None)):
        shuffles = isinstance(sampler, DistributedSampler) and sampler.shuffle
        if isinstance(sampler, random) or shuffles:
            raise ValueError(
                "data must be a DataLoader with shuffle=False, got one with a "
                f"{type(sampler).__name__}: its order has to be the same at each pass, and `fit` "
                "shuffles by itself"
            )
