"""Rows of data, and draws of the latent variables of a block of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.distributions import OrderEvent
from pyro_gcm.sampling.base_samples import pairwise_mean


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

    :param z: [N, b, D].
    :param covariates: standardised, without gaps, [(N,) b, x_dim].
    :param base: base samples [N, b or 1, E] that z did not use.
    :param seed: seed of what base samples cannot drive; None for independent draws.
    :param log_weights: of the draws, [N, b], normalised over N; None where they are equal.
    :param sites: draws of other sites by name, each [N, b, ...].
    :param separate: draws of sites that y does not depend on, with log-weights of their own.
    :param incomplete: rows [b] whose covariates had missing values.
    :param cost: distribution of the costs given z, [N, b, (G,) K].
    :param revenue: what the costs are compared with, [(N,) b, (G,) K], or its distribution where
        that is integrated out.
    """

    z: Tensor
    covariates: Tensor
    base: Tensor
    seed: int | None = None
    log_weights: Tensor | None = None
    sites: Mapping[str, Tensor] = MappingProxyType({})
    separate: Mapping[str, tuple[Tensor, Tensor]] = MappingProxyType({})
    incomplete: Any = None
    cost: Any = None
    revenue: Any = None

    @property
    def event(self) -> OrderEvent:
        """The order event between the costs and the revenue."""
        return OrderEvent(self.cost, self.revenue)

    def mean(self, values: Tensor) -> Tensor:
        """Weighted mean of values [N, ...] over the draws, in a fixed order of additions."""
        return pairwise_mean(values, None if self.log_weights is None else self.log_weights.exp())

    def reweighted(self, log_factors: Tensor) -> Draws:
        """The draws with their weights multiplied by factors [N, b]."""
        log_factors = log_factors.double()
        if self.log_weights is not None:
            log_factors = log_factors + self.log_weights
        return self._replace(log_weights=torch.log_softmax(log_factors, 0))

    def against_revenues(self) -> Draws:
        """The same with a dimension for revenues after that of the rows."""
        log_weights = self.log_weights
        return self._replace(
            z=self.z.unsqueeze(-2),
            covariates=self.covariates.unsqueeze(-2),
            log_weights=None if log_weights is None else log_weights.unsqueeze(-1),
        )

    def select(self, index: Tensor) -> Draws:
        """The draws `index` [S, b] of every row."""
        varying = self._varying()
        for name, values in varying.items():
            varying[name] = pick(values, index)
        return self._with(varying)

    def zeros(self, count: int) -> Draws:
        """Room for `count` draws of every row."""
        varying = self._varying()
        for name, values in varying.items():
            varying[name] = values.new_zeros(count, *values.shape[1:])
        return self._with(varying)

    def put(self, place: Tensor, rows: Tensor, other: Draws, draw: Tensor, row: Tensor) -> None:
        """Write draw `draw` of row `row` of `other` to place `place` of row `rows`, in place."""
        theirs = other._varying()
        for name, values in self._varying().items():
            values[place, rows] = theirs[name][draw, row]

    def _varying(self) -> dict[str, Tensor]:
        """What differs between the draws, by name."""
        varying = {"z": self.z, **self.sites}
        if self.covariates.dim() == 3:
            varying["covariates"] = self.covariates
        rank = 2 + len(self.cost.event_shape)
        if isinstance(self.revenue, Tensor) and self.revenue.dim() == rank:
            varying["revenue"] = self.revenue
        return varying

    def _with(self, varying: dict[str, Tensor]) -> Draws:
        return self._replace(
            z=varying.pop("z"),
            covariates=varying.pop("covariates", self.covariates),
            revenue=varying.pop("revenue", self.revenue),
            sites=varying,
        )


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Draws `index` [S, b] of values [N, b, ...]."""
    at = index.reshape(*index.shape, *(1,) * (values.dim() - 2))
    return values.gather(0, at.expand(*index.shape, *values.shape[2:]))
