"""A bound between the mean of the members' log-likelihoods and the log of their mean."""

from __future__ import annotations

from typing import Any

import torch
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

from pyro_gcm._utils.options import number


def pooled(log_p: Tensor, log_y: Tensor, pooling: float) -> Tensor:
    """log of the mean over the values of a finite z, mean of the logs, or what is between them.

    :param log_p: log-probabilities of the values, and `log_y`: of y given each, along dimension 0.
    :param pooling: weight of the first; 1 minus it is that of the second.
    """
    parts = []
    if pooling > 0.0:
        parts.append(pooling * torch.logsumexp(log_p + log_y, 0))
    if pooling < 1.0:
        parts.append((1.0 - pooling) * (log_p.exp() * log_y).sum(0))
    return sum(parts[1:], parts[0])


class PooledELBO(TraceEnum_ELBO):
    """(1 - pooling) E_q log p(y | z) + pooling log E_p p(y | z) for a z that the guide enumerates.

    The first term is the ELBO with this guide, under which every value of z is trained on its own
    likelihood; the second the exact log-evidence, under which values may share the rows among
    themselves. With q(z) = p(z) the value is a lower bound on the evidence for every weight.

    :param pooling: weight of the evidence, in [0, 1].
    :raises ValueError: for another weight.
    """

    def __init__(self, pooling: float, *, max_plate_nesting: int = 1, **options: Any) -> None:
        pooling = number("pooling", pooling, 0.0, 1.0)
        super().__init__(max_plate_nesting=max_plate_nesting, **options)
        self.pooling = pooling

    def differentiable_loss(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Minus the bound, summed over the rows."""
        run = super().differentiable_loss
        loss: Tensor = self._weighted(run, model, guide, *args, **kwargs)
        return loss

    def loss(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> float:
        """The same as a number."""
        loss: float = self._weighted(super().loss, model, guide, *args, **kwargs)
        return loss

    def _weighted(self, run: Any, model: Any, guide: Any, *args: Any, **kwargs: Any) -> Any:
        """The sum of the terms that count, both with the same draws of dropout."""
        terms = [(1.0 - self.pooling, guide), (self.pooling, _nothing)]
        terms = [(weight, of_term) for weight, of_term in terms if weight > 0.0]
        first, *others = terms
        devices = {t.device for t in args if isinstance(t, Tensor) and t.is_cuda}
        with torch.random.fork_rng(devices=list(devices), enabled=bool(others)):
            total = first[0] * run(model, first[1], *args, **kwargs)
        for weight, of_term in others:
            total = total + weight * run(model, of_term, *args, **kwargs)
        return total

    def loss_and_grads(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> float:
        """The same, with gradients left in the parameters."""
        loss = self.differentiable_loss(model, guide, *args, **kwargs)
        loss.backward()
        return loss.item()


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A guide without sites: the program sums out what it can."""
