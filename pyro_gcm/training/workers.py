"""The processes of one training run, each of which computes a part of every batch."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.modules.batchnorm import _NormBase

from pyro_gcm._options import flag
from pyro_gcm.training.shared_draws import SharedDraws

#: How long a process of a group that `workers_of` makes may take to answer.
ANSWER = timedelta(minutes=10)


class WorkerLost(RuntimeError):
    """Another process of the run has ended, or has not answered in time."""


class Alone:
    """One process, which computes all of every batch."""

    rank, size = 0, 1

    def check(self, model: Any, batch: int) -> None:
        """Raise ValueError for what cannot be divided among the processes.

        :param batch: rows of the largest batch.
        """

    def used(self) -> AbstractContextManager[Any]:
        """Inside, no other run of this process uses them."""
        return nullcontext()

    def part(self, rows: int) -> slice:
        """The rows of a batch that this process computes."""
        return slice(0, rows)

    def counts(self, rows: int) -> bool:
        """Whether any row of a batch is this process's to compute."""
        return True

    def draws(self, rows: int) -> AbstractContextManager[Any]:
        """Inside, what is drawn for this process's rows is its part of the draws for all rows."""
        return nullcontext()

    def add(self, *values: Tensor) -> None:
        """Replace every tensor by its sum over the processes; all of one dtype and device."""

    def start_alike(self, state: dict[str, Any], described: dict[str, Any]) -> None:
        """Give the tensors of a state the first process's values.

        :param described: what has to be the same everywhere.
        :raises ValueError: where it is not.
        """

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What the function returns in the first process; other processes do not call it."""
        return make()

    def any_of(self, text: str) -> str:
        """The first text that is not empty, over the processes."""
        return text


ALONE = Alone()
_in_use = threading.Lock()


class Workers(Alone):
    """The processes of torch's default process group.

    All of them have the same rows, draw the same random numbers, and make the same step from the
    sum of their gradients, so that their number changes no more than the order of sums. What one
    of them cannot tell the others raises `WorkerLost`: at once if a process has ended, otherwise
    after the time-out of the group.
    """

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def check(self, model: Any, batch: int) -> None:
        """As `Alone.check`."""
        if batch < self.size:
            raise ValueError(
                f"batch_size must be at least the number of processes, {self.size}, so that each "
                f"has a part, got batches of {batch} rows"
            )
        for module in model.modules():
            if isinstance(module, _NormBase) and module.track_running_stats:
                raise ValueError(
                    f"{type(module).__name__} would take the statistics of one process's part of "
                    "a batch: use layer norm"
                )

    @contextmanager
    def used(self) -> Iterator[None]:
        """As `Alone.used`.

        :raises RuntimeError: in another thread, whose messages would be taken for those of this.
        """
        if not _in_use.acquire(blocking=False):
            raise RuntimeError(
                "another thread trains a model with these processes: train one after the other, or "
                "pass distributed=False to train in this process alone"
            )
        try:
            yield
        finally:
            _in_use.release()

    def part(self, rows: int) -> slice:
        """Neighbouring rows: as many for each process, or one more for the first ones.

        If there are more processes than rows, some have the last row, for nothing; see `counts`.
        """
        least, more = divmod(rows, self.size)
        start = self.rank * least + min(self.rank, more)
        stop = start + least + (self.rank < more)
        return slice(start, stop) if start < stop else slice(rows - 1, rows)

    def counts(self, rows: int) -> bool:
        """As `Alone.counts`."""
        return self.rank < rows

    def draws(self, rows: int) -> AbstractContextManager[Any]:
        """As `Alone.draws`."""
        return SharedDraws(self.part(rows), rows, self.rank)

    def add(self, *values: Tensor) -> None:
        """As `Alone.add`, in one message."""
        whole = torch.cat([value.detach().reshape(-1) for value in values])
        with _answering():
            dist.all_reduce(whole)
        parts = whole.split([value.numel() for value in values])
        for value, part in zip(values, parts, strict=True):
            value.copy_(part.view_as(value))

    def start_alike(self, state: dict[str, Any], described: dict[str, Any]) -> None:
        """As `Alone.start_alike`."""
        tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        mine = {
            **described,
            **{f"the type of {k}": f"{v.dtype} {list(v.shape)}" for k, v in tensors.items()},
        }
        everyone: list[Any] = [None] * self.size
        with _answering():
            dist.all_gather_object(everyone, mine)
        for rank, theirs in enumerate(everyone):
            for name in mine.keys() | theirs.keys():
                if mine.get(name) != theirs.get(name):
                    raise ValueError(
                        "every process must be given the same rows, model and options, of which "
                        f"each computes its part: the {name} is {theirs.get(name)} in process "
                        f"{rank}, {mine.get(name)} in process {self.rank}. With distributed=False "
                        "each trains for itself"
                    )
        with _answering(), torch.no_grad():
            for tensor in tensors.values():
                whole = tensor.detach().contiguous()
                dist.broadcast(whole, 0)
                tensor.copy_(whole)

    def from_first(self, make: Callable[[], Any]) -> Any:
        """As `Alone.from_first`; an error of the first process is a `ValueError` in the others."""
        said: list[Any] = [None, None]
        try:
            if self.rank == 0:
                said = [make(), None]
        except BaseException as error:
            said = [None, f"{type(error).__name__} in process 0: {error}"]
            raise
        finally:
            with _answering():
                dist.broadcast_object_list(said, 0)
        if said[1] is not None:
            raise ValueError(said[1])
        return said[0]

    def any_of(self, text: str) -> str:
        """As `Alone.any_of`."""
        everyone: list[str] = [""] * self.size
        with _answering():
            dist.all_gather_object(everyone, text)
        return next((said for said in everyone if said), "")


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


def workers_of(distributed: bool | None) -> Alone:
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
    return Workers() if dist.get_world_size() > 1 else ALONE
