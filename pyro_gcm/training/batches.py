"""The rows of a training, in mini-batches, and the processes that share each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from pyro_gcm.streams.passes import ShuffledRows, seed_for

#: Bytes that are gathered at once: many small batches, which are then views, or one large one.
GATHERED = 1 << 22

Columns = list[Tensor]


class RowsInMemory:
    """Some rows of tensors, in a new random order every epoch or always in the same one.

    Rows are gathered and prepared for many batches at once, and never all of them: memory does not
    grow with their number.

    :param columns: tensors with one row per datum.
    :param index: of the rows.
    :param size: rows of a batch; the last one of an epoch may have fewer.
    :param order: generator of the order; None for that of `index`.
    :param prepare: what is done to the rows of every column, for each row by itself.
    """

    def __init__(
        self,
        columns: Columns,
        index: Tensor,
        size: int,
        order: torch.Generator | None = None,
        prepare: Callable[[Columns], Columns] = list,
    ) -> None:
        self.columns, self.index = columns, index.to(columns[0].device)
        self.size, self.order, self.prepare = size, order, prepare
        self.rows, self.steps = len(index), math.ceil(len(index) / size)

    def epoch(self, number: int) -> Iterator[Columns]:
        """Batches of the next epoch, whatever its number."""
        visited = self.index
        if self.order is not None:
            shuffled = torch.randperm(self.rows, generator=self.order)
            visited = self.index[shuffled.to(self.index.device)]
        row_bytes = sum(c[:1].numel() * c.element_size() for c in self.columns)
        gathered = self.size * max(1, GATHERED // (row_bytes * self.size))
        parts = visited.split(gathered) if self.rows else ()
        # No generator, whose frame every step would enter.
        return chain.from_iterable(map(self._batches, parts))

    def _batches(self, part: Tensor) -> Iterator[Columns]:
        rows = self.prepare([column.index_select(0, part) for column in self.columns])
        return map(list, zip(*(column.split(self.size) for column in rows), strict=True))


#: Rows that a training visits once an epoch.
Batches = RowsInMemory | ShuffledRows


def selected(columns: Columns, index: Tensor) -> Columns:
    """The rows `index`, in any order: the columns themselves, not copies, if these are all rows."""
    return [column if len(index) == len(column) else column[index] for column in columns]


class Workers:
    """The processes that a script started by `torchrun` has joined to a group, or one alone.

    As with torch's `DistributedDataParallel`, all of them have the same rows and weights, compute
    their parts of a batch with draws of their own, and make the same step from the mean gradient.
    """

    def __init__(self) -> None:
        self.rank, self.size = 0, 1
        if dist.is_available() and dist.is_initialized():
            self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def seed(self, seed: int, epoch: int = 0) -> int:
        """Of what this process draws from an epoch on; that of the training in the first one."""
        return seed_for(seed, f"process {self.rank}, epoch {epoch}") if self.rank else seed

    def start(self, model: nn.Module, given: dict[str, Any], smallest: int) -> None:
        """Give all processes the weights of the first one.

        :param given: what has to be the same everywhere.
        :param smallest: rows of a batch.
        :raises ValueError: where it is not, or where a batch cannot be divided.
        """
        if self.size == 1:
            return
        if smallest < self.size:
            raise ValueError(f"batch_size must be at least {self.size}, the number of processes")
        if any(isinstance(m, _NormBase) and m.track_running_stats for m in model.modules()):
            raise ValueError("batch norm would see one process's part of a batch: use layer norm")
        everyone: list[Any] = [None] * self.size
        dist.all_gather_object(everyone, given)
        if other := [
            name for name in given if any(each.get(name) != given[name] for each in everyone)
        ]:
            raise ValueError(f"every process must be given the same {', '.join(other)}")
        for value in model.state_dict().values():
            if isinstance(value, Tensor):
                dist.broadcast(value, 0)

    def from_first(self, value: Any) -> Any:
        """The value that the first process has."""
        said = [value]
        if self.size > 1:
            dist.broadcast_object_list(said, 0)
        return said[0]

    def part(self, batch: list[Tensor]) -> list[Tensor]:
        """The rows of a batch that this process computes; none where others have all of them."""
        if self.size == 1:
            return batch
        return [column.tensor_split(self.size)[self.rank] for column in batch]

    def add(self, *values: Tensor) -> None:
        """Replace tensors of one dtype and device by their sums over the processes."""
        if self.size > 1:
            whole = torch.cat([value.detach().reshape(-1) for value in values])
            dist.all_reduce(whole)
            for value, part in zip(values, whole.split([v.numel() for v in values]), strict=True):
                value.copy_(part.view_as(value))

    def add_gradients(self, weights: list[nn.Parameter], loss: Tensor, share: float) -> None:
        """Loss and gradient of a batch, of which this process has computed a share of the rows."""
        if self.size > 1:
            for weight in weights:
                if weight.grad is None:  # another process may have one
                    weight.grad = torch.zeros_like(weight)
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            torch._foreach_mul_(gradients, share)
            self.add(*gradients, loss)
