"""Rows of data, draws of the latent variables of a block of them, and what users get of those."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.prediction.blocks import mean_of_draws, whole_vectors


class Rows(NamedTuple):
    """Checked rows x [B, x_dim], r [B, r_dim] and y [B], None where it was not given."""

    x: Tensor
    r: Tensor
    y: Tensor | None = None

    def take(self, index: Tensor) -> Rows:
        """The rows `index`."""
        return Rows(*(None if part is None else part[index] for part in self))  # type: ignore[arg-type]

    def split(self, size: int) -> Iterator[tuple[Tensor, Rows]]:
        """Parts of so many rows: their indices, and they."""
        for index in torch.arange(len(self.x), device=self.x.device).split(size):
            yield index, self.take(index)


class Draws(NamedTuple):
    """N draws of the latent variables for each of b rows.

    :param num_draws: their number N.
    :param values: of the latent sites by name, each [N, b, *event], with sites computed from them.
    :param left: sites that are left as their distributions (`Left`), by name: the costs.
    :param p_y: distribution of the outcome given the draws, of batch shape [N, b]; None for draws
        that were selected, until the story is replayed for them.
    :param log_weights: of the draws, [N, b], normalised over N; None where they are equal.
    :param separate: draws of sites that y does not depend on, with log-weights of their own.
    """

    num_draws: int
    values: Mapping[str, Tensor]
    left: Mapping[str, Any]
    p_y: Any = None
    log_weights: Tensor | None = None
    separate: Mapping[str, tuple[Tensor, Tensor]] = MappingProxyType({})

    def mean(self, values: Tensor, first: int = 0) -> Tensor:
        """Weighted mean [..., b] of values [..., N, b]; a single row counts for all draws.

        :param first: the row that they begin with.
        """
        if values.shape[-2:-1] != (self.num_draws,):  # y depends on no draw
            values = values.expand(*values.shape[:-2], self.num_draws, values.shape[-1])
        weights = self.log_weights
        if weights is not None:
            weights = weights[:, first : first + values.shape[-1]].exp()
        return mean_of_draws(values, weights)

    @property
    def has_rows(self) -> bool:
        """Whether p(y | draws) of some rows can be computed apart, with the same bits."""
        return getattr(self.p_y, "has_rows", False) and self.p_y.event.batch_shape[-1] > 1

    def outcomes(self, rows: slice) -> Any:
        """p(y | draws) of some rows, or of all where they cannot be computed apart."""
        return self.p_y.of_rows(rows) if self.has_rows else self.p_y

    def first_rows(self, count: int, size: int) -> tuple[Draws, int]:
        """Draws and p(y | draws) of the first rows, where those can be computed apart.

        :param size: rows of these draws.
        :returns: the draws, and of how many rows they are.
        """
        kept = whole_vectors(count, self.num_draws)
        if not self.has_rows or kept >= size:
            return self, size
        weights = None if self.log_weights is None else self.log_weights[:, :kept]
        return self._replace(p_y=self.p_y.of_rows(slice(kept)), log_weights=weights), kept

    def log_mean(self, log_p: Tensor) -> Tensor:
        """log of the weighted mean over the draws of log-probabilities [N, b]."""
        if self.log_weights is None:
            return torch.logsumexp(log_p, 0) - math.log(len(log_p))
        return torch.logsumexp(log_p + self.log_weights, 0)

    def log_likelihood(self, rows: Rows) -> Tensor:
        """Log-probability of the observed y of rows, given the draws, [N, b], float64."""
        if rows.y is None:
            return torch.zeros(self.p_y.batch_shape, dtype=torch.float64, device=rows.x.device)
        return self.p_y.log_prob(rows.y).double()

    def of_rows(self, count: int) -> Draws:
        """The draws of the first rows, without the distributions of sites."""
        values, weights = {name: v[:, :count] for name, v in self.values.items()}, self.log_weights
        weights = weights if weights is None else weights[:, :count]
        return Draws(self.num_draws, values, {}, log_weights=weights)

    def of_selected(self, response: Any, rows: Rows) -> Draws:
        """Weight draws by the probability that the row is in the data (`Response.log_selected`)."""
        log_selected = None if rows.y is None else response.log_selected(self.p_y, rows.y)
        return self if log_selected is None else self.reweighted(log_selected)

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


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws(Mapping[str, Tensor]):
    """Draws of sites by name, each [S, B, ...], and measures of their quality, each [B].

    `ess` is the number of independent draws that these are worth: S where they are exact, the
    number of accepted ones where rejection ended before, otherwise 1 / (1 / S + 1 / P) with the
    effective sample size P of the proposals that they were resampled from. `pareto_k` is the Pareto
    shape of the importance weights, NaN where there are none; above 0.7 the weights are unreliable.
    `log_evidence` is a Monte Carlo estimate, from `proposals` proposals and with standard error
    `log_evidence_error`, of log p(y | x, r) in nats; 0 where y was not observed. The error is inf
    where so few proposals come near the posterior that it is unknown; then the estimate is likely
    to be far too low. Where z was summed out it is exact, with an error of 0 and as if from
    infinitely many proposals.
    """

    sites: Mapping[str, Tensor]
    ess: Tensor
    pareto_k: Tensor
    log_evidence: Tensor
    log_evidence_error: Tensor
    proposals: Tensor

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(values.shape)}" for name, values in self.sites.items())
        return f"PosteriorDraws({shapes})"

    def __getitem__(self, site: str) -> Tensor:
        return self.sites[site]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)

    def only(self, *sites: str) -> PosteriorDraws:
        """The same without the other sites."""
        kept = {name: self.sites[name] for name in sites if name in self.sites}
        return replace(self, sites=kept)

    def quality(self) -> dict[str, Tensor]:
        """Everything but the sites, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "sites"}

    def to(self, device: torch.device) -> PosteriorDraws:
        """The same on another device."""
        sites, quality = (
            {name: values.to(device) for name, values in part.items()}
            for part in (self.sites, self.quality())
        )
        return PosteriorDraws(sites, **quality)

    def empty_like(self, rows: int) -> PosteriorDraws:
        """Room for the same of `rows` rows."""
        sites = {k: v.new_empty(len(v), rows, *v.shape[2:]) for k, v in self.sites.items()}
        return PosteriorDraws(sites, **{k: v.new_empty(rows) for k, v in self.quality().items()})

    def index_copy_(self, index: Tensor, part: PosteriorDraws) -> None:
        """Write the draws of the rows `index`, in place."""
        for name, values in part.sites.items():
            self.sites[name].index_copy_(1, index, values)
        quality = part.quality()
        for name, values in self.quality().items():
            values[index] = quality[name]


class SurfaceDraws(NamedTuple):
    """Predictions given each of N draws: values [N, B, R] and weights [N, B, R] that sum to 1.

    `weights` is None where they are equal.
    """

    values: Tensor
    weights: Tensor | None

    def to(self, device: torch.device) -> SurfaceDraws:
        """The same on another device."""
        weights = None if self.weights is None else self.weights.to(device)
        return SurfaceDraws(self.values.to(device), weights)


def joined(parts: Sequence[PosteriorDraws]) -> PosteriorDraws:
    """Draws of the same rows after each other, from different draws of what all rows share."""
    sites = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    quality = {
        name: torch.stack([part.quality()[name] for part in parts]) for name in parts[0].quality()
    }
    log_evidence, count = quality["log_evidence"], len(parts)
    spread = log_evidence.var(0, correction=min(1, count - 1))  # 0 of a single part
    return PosteriorDraws(
        sites,
        ess=quality["ess"].sum(0),
        pareto_k=quality["pareto_k"].amax(0),
        log_evidence=log_evidence.logsumexp(0) - math.log(count),
        log_evidence_error=(quality["log_evidence_error"].square().sum(0) + spread).sqrt() / count,
        proposals=quality["proposals"].sum(0),
    )
