"""Rows of data, and draws of the latent variables of a block of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm.distributions import OrderEvent
from pyro_gcm.sampling.base_samples import pairwise_mean

_LOCATION_SCALE = (dist.Normal, dist.Logistic, dist.Laplace)


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
    :param covariates: standardised, without gaps, [(N,) b, x_dim]; of members their encodings.
    :param base: base samples [N, b or 1, E] that z did not use.
    :param seed: seed of what base samples cannot drive; None for independent draws.
    :param log_weights: of the draws, [N, b], normalised over N; None where they are equal.
    :param sites: draws of other sites by name, each [N, b, ...].
    :param separate: draws of sites that y does not depend on, with log-weights of their own.
    :param incomplete: rows [b] whose covariates had missing values.
    :param cost: distribution of the costs given z, [N, b, (G,) K]; draws that were selected keep it
        only where that is cheap, else None.
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
        varying = {"z": self.z, **self.sites}
        if self.covariates.dim() == 3:
            varying["covariates"] = self.covariates
        rank = 2 + len(self.cost.event_shape)
        if isinstance(self.revenue, Tensor) and self.revenue.dim() == rank:
            varying["revenue"] = self.revenue
        if self._cost_family() is not None:
            base = self.cost.base_dist
            varying["cost.loc"], varying["cost.scale"] = base.loc, base.scale
        return varying

    def _with(self, varying: dict[str, Tensor]) -> Draws:
        """The draws with other values in place of those of `_varying`."""
        family, cost = self._cost_family(), None
        if family is not None:
            parameters = varying.pop("cost.loc"), varying.pop("cost.scale")
            cost = family(*parameters, validate_args=False).to_event(len(self.cost.event_shape))
        return self._replace(
            z=varying.pop("z"),
            covariates=varying.pop("covariates", self.covariates),
            revenue=varying.pop("revenue", self.revenue),
            sites=varying,
            cost=cost,
        )

    def _cost_family(self) -> Any:
        """The class of the costs where loc and scale determine them, so that draws keep them."""
        if not isinstance(self.cost, torch.distributions.Independent):
            return None
        base = self.cost.base_dist
        depends_on_draw = base.batch_shape[:2] == self.z.shape[:2]
        return type(base) if type(base) in _LOCATION_SCALE and depends_on_draw else None


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Draws `index` [S, b] of values [N, b, ...]."""
    at = index.reshape(*index.shape, *(1,) * (values.dim() - 2))
    return values.gather(0, at.expand(*index.shape, *values.shape[2:]))
