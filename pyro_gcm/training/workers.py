"""The processes of torch's default group, each of which computes a part of every batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.modules.batchnorm import _NormBase

from pyro_gcm._utils.torch_state import HasTensors
from pyro_gcm.streams.draws import seed_for


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

    def start(self, model: HasTensors, given: dict[str, Any], smallest: int) -> None:
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
        if self.size == 1:
            return value
        said = [value]
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
            parts = whole.split([value.numel() for value in values])
            for value, part in zip(values, parts, strict=True):
                value.copy_(part.view_as(value))
