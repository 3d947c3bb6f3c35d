"""Rows of data, and draws of the latent variables of a block of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.distributions.event_planes import ALL
from pyro_gcm.distributions.families import of_same_family, parameters_of
from pyro_gcm.distributions.left import Left
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

    def mean(self, values: Tensor, rows: slice = ALL) -> Tensor:
        """Weighted mean [..., b] of values [..., N, b]; a single row counts for all draws."""
        if values.shape[-2:-1] != (self.num_draws,):  # y depends on no draw
            values = values.expand(*values.shape[:-2], self.num_draws, values.shape[-1])
        first = values.movedim(-2, 0)
        if self.log_weights is None:
            return pairwise_mean(first)
        weights = self.log_weights[:, rows].exp()
        return pairwise_mean(first, weights.reshape(len(weights), *(1,) * (first.dim() - 2), -1))

    def of_rows(self, count: int) -> Draws:
        """The draws of the first rows, without the distributions of sites."""
        values = {name: v[:, :count] for name, v in self.values.items()}
        weights = self.log_weights
        return Draws(
            self.num_draws, values, {}, None, weights if weights is None else weights[:, :count]
        )

    def reweighted(self, log_factors: Tensor) -> Draws:
        """The draws with their weights multiplied by factors [N, b]."""
        log_factors = log_factors.double()
        if self.log_weights is not None:
            log_factors = log_factors + self.log_weights
        return self._replace(log_weights=torch.log_softmax(log_factors, 0))

    def select(self, index: Tensor) -> Draws:
        """The draws `index` [S, b] of every row."""
        return self._with({name: pick(values, index) for name, values in self._varying().items()})

    def some(self, which: Tensor) -> dict[str, Tensor]:
        """What differs between the draws, by name, [n, ...] for the indices `which` [n].

        :param which: indices into the draws of all rows, flattened from [N, b].
        """
        flat = {name: values.flatten(0, 1) for name, values in self._varying().items()}
        return {name: values.index_select(0, which) for name, values in flat.items()}

    def made_of(self, parts: Sequence[Mapping[str, Tensor]], at: Tensor) -> Draws:
        """Draws of the same rows from what `some` returned, of any draws of them.

        :param at: indices [S, b] into the parts after each other.
        """
        return self._with(
            {
                name: torch.cat([part[name] for part in parts])
                .index_select(0, at.flatten())
                .unflatten(0, at.shape)
                for name in self._varying()
            }
        )

    def _varying(self) -> dict[str, Tensor]:
        """What differs between the draws, by name, each [N, b, ...]."""
        rows = next((v.shape[1] for v in self.values.values() if v.shape[1] > 1), 1)
        varying = {  # what rows or draws share is there for each of them
            name: v.expand(self.num_draws, rows, *v.shape[2:]) for name, v in self.values.items()
        }
        for name, left in self._kept().items():
            of_costs = parameters_of(left.fn.base_dist).items()
            varying |= {f"{name}.{key}": value for key, value in of_costs}
        return varying

    def _with(self, varying: dict[str, Tensor]) -> Draws:
        """The draws with other values in place of those of `_varying`."""
        left = {}
        for name, old in self._kept().items():
            base = old.fn.base_dist
            parameters = {key: varying.pop(f"{name}.{key}") for key in parameters_of(base)}
            fn = of_same_family(base, **parameters).to_event(len(old.fn.event_shape))
            left[name] = Left(name, fn)
        return Draws(next(iter(varying.values())).shape[0], varying, left)

    def _kept(self) -> dict[str, Any]:
        """Sites whose distributions are a few tensors, for each draw, so that they keep them."""
        return {name: left for name, left in self.left.items() if self._keeps(left.fn)}

    def _keeps(self, fn: Any) -> bool:
        if not isinstance(fn, torch.distributions.Independent):
            return False
        drawn = len(fn.batch_shape) == 2 and fn.batch_shape[0] == self.num_draws
        return drawn and bool(parameters_of(fn.base_dist))


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Draws `index` [S, b] of values [N, b, ...]."""
    at = index.reshape(*index.shape, *(1,) * (values.dim() - 2))
    return values.gather(0, at.expand(*index.shape, *values.shape[2:]))
