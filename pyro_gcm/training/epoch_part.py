"""How far an epoch has come."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor


class EpochPart:
    """The part of an epoch that is done.

    :param rate: the learning rate at its start.
    :param start: the state of the run at its start, or only that of the model where no file is
        written. If the epoch fails, the model gets its weights back, and the file this state.
    """

    def __init__(self, rate: float, start: dict[str, Any]) -> None:
        self.batches, self.seconds, self.rate = 0, 0.0, rate
        self.start = copy.deepcopy(start)
        self.total: Tensor | float = 0.0  # of the losses of the rows

    def state(self) -> dict[str, Any]:
        """Plain data and tensors."""
        return dict(vars(self))

    @classmethod
    def of(cls, state: dict[str, Any]) -> EpochPart:
        """The part that has a state."""
        part = cls.__new__(cls)
        vars(part).update(state)
        return part
