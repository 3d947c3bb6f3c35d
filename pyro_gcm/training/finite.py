"""Whether the numbers of a training run are finite."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

#: Steps of which the numbers are read together where reading waits for a device.
_TOGETHER = 50


class Diverged(RuntimeError):
    """Loss, gradient or weights of a training run are infinite or NaN.

    The model has the weights of the last epoch that was finished, which are in the checkpoint, too.
    """


class NotFinite(ArithmeticError):
    """A number of a step is infinite or NaN.

    :param step: number of the step, from 0.
    :param what: which one.
    """

    def __init__(self, step: int, what: str) -> None:
        super().__init__(what)
        self.step = step


class FiniteSteps:
    """Loss and gradient of the steps, read at once on a CPU and for many steps together elsewhere.

    :param parameters: the weights by name.
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self.parameters = parameters
        self.unread: list[tuple[int, Tensor, Tensor]] = []

    def add(self, step: int, loss: Tensor, norm: Tensor) -> None:
        """Take the loss of a step and the norm of its gradient, before the weights change.

        :raises NotFinite: for this step, or where reading waits for one of the last ones.
        """
        if loss.device.type != "cpu":
            self.unread.append((step, loss, norm))
            if len(self.unread) == _TOGETHER:
                self.read()
        elif not math.isfinite(loss) or not math.isfinite(norm):
            self.check_weights(step, "before")
            raise NotFinite(step, not_finite(float(loss), float(norm)))

    def read(self) -> None:
        """Read what has not been read yet.

        :raises NotFinite: for the first step with such a number.
        """
        unread, self.unread = self.unread, []
        if not unread:
            return
        numbers = torch.stack([torch.stack([loss, norm]) for _, loss, norm in unread]).cpu()
        bad = (~numbers.isfinite()).any(1).nonzero()
        if len(bad):
            first = int(bad[0])
            raise NotFinite(unread[first][0], not_finite(*numbers[first].tolist()))

    def check_weights(self, step: int, when: str = "after") -> None:
        """Raise NotFinite if a weight is not finite before or after a step."""
        for name, weight in self.parameters.items():
            if not weight.isfinite().all():
                raise NotFinite(step, f"a weight of {name} is not finite {when} the step")


def not_finite(loss: float, norm: float) -> str:
    """What to say of a step whose loss or norm of the gradient is not finite."""
    if math.isfinite(loss):
        return f"the norm of the gradient is {norm}"
    return f"the loss is {loss}"
