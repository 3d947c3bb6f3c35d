"""The processes of one training run, each of which computes a part of every batch."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.modules.batchnorm import _NormBase

from pyro_gcm._utils.evaluating import HasTensors
from pyro_gcm._utils.options import flag
from pyro_gcm.streams.draws import seed_for

#: How long a process of a group that `workers_of` makes may take to answer.
ANSWER = timedelta(minutes=10)
_in_use = threading.Lock()


class WorkerLost(RuntimeError):
    """Another process of the run has ended, or has not answered in time."""


class Workers:
    """The processes of a run: those of torch's default process group, or one alone.

    As with torch's `DistributedDataParallel`, all of them have the same rows and weights, compute
    their parts of a batch with draws of their own, and make the same step from the sum of their
    gradients. What one of them cannot tell the others raises `WorkerLost`: at once if a process has
    ended, otherwise after the time-out of the group.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    def check(self, model: HasTensors, batch: int) -> None:
        """Raise ValueError for what cannot be divided among the processes.

        :param batch: rows of the largest batch.
        """
        if batch < self.size:
            raise ValueError(
                f"batch_size must be at least the number of processes, {self.size}, so that each "
                f"has a part, got batches of {batch} rows"
            )
        for module in model.modules() if self.size > 1 else ():
            if isinstance(module, _NormBase) and module.track_running_stats:
                raise ValueError(
                    f"{type(module).__name__} would take the statistics of one process's part of "
                    "a batch: use layer norm"
                )

    @contextmanager
    def used(self) -> Iterator[None]:
        """Inside, no other run of this process uses them.

        :raises RuntimeError: in another thread, whose messages would be taken for those of this.
        """
        if self.size == 1:
            yield
            return
        if not _in_use.acquire(blocking=False):
            raise RuntimeError(
                "another thread trains a model with these processes: train one after the other, or "
                "pass distributed=False to train in this process alone"
            )
        try:
            yield
        finally:
            _in_use.release()

    def part(self, batch: list[Tensor]) -> list[Tensor]:
        """The rows of a batch that this process computes; none where others have all of them.

        They are neighbours, and as many for each process, or one more for the first ones.
        """
        if self.size == 1:
            return batch
        return [column.tensor_split(self.size)[self.rank] for column in batch]

    def seed(self, seed: int, step: int) -> int:
        """Of what this process draws in a step; the same seed in one process."""
        return seed if self.size == 1 else seed_for(seed, f"process {self.rank}, step {step}")

    def add(self, *values: Tensor) -> None:
        """Replace tensors of one dtype and device by their sums over the processes."""
        if self.size == 1:
            return
        whole = torch.cat([value.detach().reshape(-1) for value in values])
        with _answering():
            dist.all_reduce(whole)
        parts = whole.split([value.numel() for value in values])
        for value, part in zip(values, parts, strict=True):
            value.copy_(part.view_as(value))

    def broadcast_state(self, state: dict[str, Any], described: dict[str, Any]) -> None:
        """Give the tensors of a state the first process's values.

        :param described: what has to be the same everywhere.
        :raises ValueError: where it is not.
        """
        if self.size == 1:
            return
        everyone: list[Any] = [None] * self.size
        with _answering():
            dist.all_gather_object(everyone, described)
        for rank, theirs in enumerate(everyone):
            for name in described.keys() | theirs.keys():
                here, there = described.get(name), theirs.get(name)
                if here != there:
                    raise ValueError(
                        "every process must be given the same rows, model and options, of which "
                        f"each computes its part: the {name} is {there} in process {rank}, {here} "
                        f"in process {self.rank}. With distributed=False each trains for itself"
                    )
        for value in state.values():
            if isinstance(value, Tensor):
                with _answering():
                    dist.broadcast(value, 0)

    def from_first(self, make: Callable[[], Any]) -> Any:
        """Return the function's result in the first process; other processes do not call it.

        :raises ValueError: in the others, for an error in the first.
        """
        if self.size == 1:
            return make()
        said: list[Any] = [None, None]
        try:
            if self.rank == 0:
                said[0] = make()
        except BaseException as error:
            said[1] = f"{type(error).__name__} in process 0: {error}"
            raise
        finally:
            with _answering():
                dist.broadcast_object_list(said, 0)
        if said[1] is not None:
            raise ValueError(said[1])
        return said[0]


ALONE = Workers()


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise WorkerLost(
            "another process of this run has ended or does not answer: see what it says. With "
            "checkpoint=..., the same command goes on from the last one that was written, with any "
            "number of processes. If only some processes call fit, pass distributed=False. "
            f"({str(error).partition('. ')[0]})"
        ) from error


def _leave() -> None:
    """End the group while Python is there: its threads would abort a process that just exits."""
    if dist.is_initialized():
        dist.destroy_process_group()


def workers_of(distributed: bool | None) -> Workers:
    """The processes among which a run is divided.

    :param distributed: None for those of an initialised process group, if there is one; True to
        initialise it, where it is not, from the environment that `torchrun` sets; False for this
        process alone.
    :raises ValueError: for another value, or True without processes.
    """
    if distributed is not None:
        distributed = flag("distributed", distributed)
    if distributed is False or not dist.is_available():
        return ALONE
    if not dist.is_initialized():
        if distributed is None:
            return ALONE
        missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR") if name not in os.environ]
        if missing:
            raise ValueError(
                "distributed=True needs the processes that torchrun starts, or an initialised "
                f"process group; there is no {', '.join(missing)} in the environment"
            )
        both = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        if torch.cuda.is_available() and "LOCAL_RANK" in os.environ:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        dist.init_process_group(both, timeout=ANSWER)
        atexit.register(_leave)
    return Workers(dist.get_rank(), dist.get_world_size())
