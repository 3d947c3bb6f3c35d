"""How far an epoch has come."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor


class EpochPart:
    """The part of an epoch that is done.

    :param model: with the weights from which the epoch starts.
    :param rate: the learning rate at its start.
    :param start: the state of the run at its start, which is written again if it fails.
    """

    def __init__(self, model: Any, rate: float = 0.0, start: dict[str, Any] | None = None) -> None:
        self.batches, self.seconds, self.rate = 0, 0.0, rate
        self.start = copy.deepcopy(start)
        self.total: Tensor | float = 0.0  # of the losses of the rows
        #: What the model gets back if a step of the epoch is not finite.
        self.good = {name: value.clone() for name, value in model.state_dict().items()}

    def state(self) -> dict[str, Any]:
        """Plain data and tensors."""
        return dict(vars(self))

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        vars(self).update(state)
