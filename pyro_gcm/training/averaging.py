"""Weights averaged over the last steps of a training run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

#: Steps over which weights are averaged, at least.
_FEWEST = 5


class AveragedWeights:
    """A running mean of the weights with the memory of one epoch (Polyak & Juditsky 1992).

    At a learning rate at which training still makes progress, the weights of single steps move
    about. A validation loss hardly tells them apart, but the mean of the predictions moves with
    them, by several standard errors of the rate of y. Their average stays.

    :param parameters: the weights, which change in place.
    :param steps: of an epoch.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], steps: int) -> None:
        self.parameters: list[Tensor] = list(parameters)
        self.steps = max(steps, _FEWEST)
        self.mean = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, which are counted from 1."""
        torch._foreach_lerp_(self.mean, self.parameters, 1.0 / min(step, self.steps))

    def keep(self) -> None:
        """Make the parameters the averages."""
        self._set(self.mean)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the parameters are the averages."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        self.keep()
        try:
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)
