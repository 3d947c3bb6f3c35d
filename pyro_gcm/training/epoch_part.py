"""How far an epoch has come."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor


class EpochPart:
    """The part of an epoch that is done.

    :param rate: the learning rate at its start.
    :param start: what is put back if it fails: the state of the run at its start, or, where no file
        is written, that of the model alone.
    """

    def __init__(self, rate: float, start: dict[str, Any]) -> None:
        self.batches, self.seconds, self.rate = 0, 0.0, rate
        self.start = copy.deepcopy(start)
        self.total: Tensor | float = 0.0  # of the losses of the rows

    def state(self) -> dict[str, Any]:
        """Plain data and tensors."""
        return dict(vars(self))

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        vars(self).update(state)
