"""Rows of data, and draws of the latent variables of a block of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.prediction.base_samples import pairwise_mean


class Rows(NamedTuple):
    """Checked rows x [B, x_dim], r [B, r_dim], y [B] and observed costs c [B, r_dim].

    y and c are None where they were not given.
    """

    x: Tensor
    r: Tensor
    y: Tensor | None = None
    c: Tensor | None = None

    def take(self, index: Tensor) -> Rows:
        """The rows `index`."""
        return Rows(*(None if part is None else part[index] for part in self))  # type: ignore[arg-type]


class Draws(NamedTuple):
    """N draws of the latent variables for each of b rows.

    :param num_draws: their number N.
    :param values: of the latent sites by name, each [N, b, *event], with sites computed from them.
    :param left: sites that are left as their distributions (`Left`), by name: the costs.
    :param p_y: distribution of the outcome given the draws, of batch shape [N, b]; None for draws
        that were selected, until the story is replayed for them.
    :param log_weights: of the draws, [N, b], normalised over N; None where they are equal.
    :param separate: draws of sites that y does not depend on, with log-weights of their own.
    :param log_observed: log-density of observed costs, [N, b].
    """

    num_draws: int
    values: Mapping[str, Tensor]
    left: Mapping[str, Any]
    p_y: Any = None
    log_weights: Tensor | None = None
    separate: Mapping[str, tuple[Tensor, Tensor]] = MappingProxyType({})
    log_observed: Any = 0.0

    def mean(self, values: Tensor, first: int = 0) -> Tensor:
        """Weighted mean [..., b] of values [..., N, b]; a single row counts for all draws.

        :param first: the row that they begin with.
        """
        if values.shape[-2:-1] != (self.num_draws,):  # y depends on no draw
            values = values.expand(*values.shape[:-2], self.num_draws, values.shape[-1])
        values, weights = values.movedim(-2, 0), self.log_weights
        if weights is None:
            return pairwise_mean(values)
        weights = weights[:, first : first + values.shape[-1]].exp()
        return pairwise_mean(values, weights.reshape(len(weights), *(1,) * (values.dim() - 2), -1))

    def log_mean(self, log_p: Tensor) -> Tensor:
        """log of the weighted mean over the draws of log-probabilities [N, b]."""
        if self.log_weights is None:
            return torch.logsumexp(log_p, 0) - math.log(len(log_p))
        return torch.logsumexp(log_p + self.log_weights, 0)

    def of_rows(self, count: int) -> Draws:
        """The draws of the first rows, without the distributions of sites."""
        values, weights = {name: v[:, :count] for name, v in self.values.items()}, self.log_weights
        weights = weights if weights is None else weights[:, :count]
        return Draws(self.num_draws, values, {}, log_weights=weights)

    def reweighted(self, log_factors: Tensor) -> Draws:
        """The draws with their weights multiplied by factors [N, b]."""
        log_factors = log_factors.double()
        if self.log_weights is not None:
            log_factors = log_factors + self.log_weights
        return self._replace(log_weights=torch.log_softmax(log_factors, 0))

    def select(self, index: Tensor) -> Draws:
        """The draws `index` [S, b] of every row, without the distributions of sites."""
        values = {name: pick(values, index) for name, values in self._whole().items()}
        return Draws(len(index), values, {})

    def some(self, which: Tensor) -> dict[str, Tensor]:
        """The values [n, ...] of the draws `which` [n], indices flattened from [N, b]."""
        flat = {name: values.flatten(0, 1) for name, values in self._whole().items()}
        return {name: values.index_select(0, which) for name, values in flat.items()}

    @classmethod
    def of_parts(cls, parts: Sequence[Mapping[str, Tensor]], at: Tensor) -> Draws:
        """Draws from what `some` returned, `at` [S, b] among the parts after each other."""
        values = {}
        for name in parts[0]:
            chosen = torch.cat([part[name] for part in parts]).index_select(0, at.flatten())
            values[name] = chosen.unflatten(0, at.shape)
        return cls(len(at), values, {})

    def _whole(self) -> dict[str, Tensor]:
        """The values [N, b, ...]: what rows or draws share is there for each of them."""
        rows = next((v.shape[1] for v in self.values.values() if v.shape[1] > 1), 1)
        shape = self.num_draws, rows
        return {name: v.expand(*shape, *v.shape[2:]) for name, v in self.values.items()}


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Draws `index` [S, b] of values [N, b, ...]."""
    at = index.reshape(*index.shape, *(1,) * (values.dim() - 2))
    return values.gather(0, at.expand(*index.shape, *values.shape[2:]))
