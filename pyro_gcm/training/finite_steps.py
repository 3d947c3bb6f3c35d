"""Whether the numbers of a training run are finite, and the bound on its gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

#: Steps of which the numbers are read together where reading waits for a device.
_TOGETHER = 50


def clip_gradients(parameters: Iterable[Tensor], max_norm: float | None) -> Tensor:
    """Clip gradients like `torch.nn.utils.clip_grad_norm_`, bit for bit, with less overhead.

    :param max_norm: the bound, or None to leave the gradients as they are.
    :returns: the norm before; inf or NaN if a gradient is, or where its square overflows.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    # On a CPU the norm can be read at no cost; a smaller one would be multiplied by exactly 1.
    on_cpu = norm.device.type == "cpu"
    if max_norm is not None and not (on_cpu and float(norm) < 0.99 * max_norm - 1e-6):
        torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


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
        at_once = loss.device.type == "cpu"
        if at_once and math.isfinite(loss) and math.isfinite(norm):
            return
        self.unread.append((step, loss, norm))
        if at_once:
            self.check_weights(step, "before")
        if at_once or len(self.unread) == _TOGETHER:
            self.read()

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
    """The message about a step whose loss or gradient norm is not finite."""
    if math.isfinite(loss):
        return f"the norm of the gradient is {norm}"
    return f"the loss is {loss}"
