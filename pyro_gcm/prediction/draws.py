"""Rows of data in blocks, draws of their latent variables, and what users get of those.

A row has the same bits wherever it stands: products multiply one block at a time
(`nets.networks`), functions see whole vectors, and draws are added in one order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from pyro_gcm.nets.networks import block_rows

#: Numbers that two of a processor's widest vectors hold. Functions round otherwise for a number
#: that is computed by itself at the end of a tensor, and none is where there are multiples of it.
_LANES = 16
#: Draws of rows that are evaluated at a time, where there are so many.
PASS = 1 << 15


def blocks(*columns: Tensor, draws: int, alone: bool = False) -> Iterator[tuple[int, list[Tensor]]]:
    """Some rows of row-aligned columns at a time: how many count, and they, in whole blocks.

    The last row is repeated until the last block is full.

    :param draws: of every row; there are as many blocks at a time as PASS allows.
    :param alone: whether every row has a block of its own.
    """
    rows, device = len(columns[0]), columns[0].device
    block = block_rows(device)
    many = 1 if alone else max(1, (block // 32) * PASS // (draws * block)) * block
    for start in range(0, rows, many):
        count = min(many, rows - start)
        place = torch.arange(start, start + count + -count % block, device=device)
        place.clamp_(max=start + count - 1)
        yield count, [column.index_select(0, place) for column in columns]


def mean_of_draws(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean [..., b] of values [..., N, b], added by halving.

    It rises with every value, also under weights [N, b], which sum to 1: rounding keeps the order
    of products with one factor and of sums with one term, and it is held within the values.
    """
    count, bounds = values.shape[-2], None
    if weights is not None:
        bounds, values = (values.amin(-2), values.amax(-2)), values * weights
    missing = (1 << (count - 1).bit_length()) - count
    values = pad(values, (0, 0, 0, missing)) if missing else values
    while values.shape[-2] > 1:
        values = torch.add(*values.chunk(2, -2))
    mean = values[..., 0, :]
    return mean / count if bounds is None else mean.clamp(*bounds)


class Rows(NamedTuple):
    """Checked rows x [B, x_dim], r [B, r_dim] and y [B], None where it was not given.

    :param number: of each row, [B], among the values of sites that all rows share, where every row
        has a value of its own.
    """

    x: Tensor
    r: Tensor
    y: Tensor | None = None
    number: Tensor | None = None

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
    :param separate: draws of sites that y does not depend on, with weights of their own.
    """

    num_draws: int
    values: Mapping[str, Tensor]
    left: Mapping[str, Any]
    p_y: Any = None
    log_weights: Tensor | None = None
    separate: Any = None

    def mean(self, values: Tensor) -> Tensor:
        """Weighted mean [..., b] of values [..., N, b]; a single row counts for all draws."""
        if values.shape[-2:-1] != (self.num_draws,):  # y depends on no draw
            values = values.expand(*values.shape[:-2], self.num_draws, values.shape[-1])
        weights = self.log_weights
        return mean_of_draws(values, None if weights is None else weights.exp())

    def apart(self, count: int, size: int) -> int:
        """How many rows to compute p(y | draws) of, with the same bits, where so many are wanted.

        :param size: rows of these draws, which that is where they cannot be computed apart.
        """
        can = getattr(self.p_y, "has_rows", False) and self.p_y.event.batch_shape[-1] > 1
        step = _LANES // math.gcd(_LANES, self.num_draws)  # all draws together fill whole vectors
        return min(size, -(-count // step) * step) if can else size

    def without_padding(self, count: int, size: int) -> tuple[Draws, int]:
        """These draws with as few rows as `apart` lets, and how many those are."""
        kept = self.apart(count, size)
        return (self.of_rows(slice(kept)), kept) if kept < size else (self, size)

    def of_rows(self, rows: slice) -> Draws:
        """p(y | draws) of some rows, and the weights of the draws, without their values."""
        weights = self.log_weights
        if weights is not None and weights.shape[1] > 1:
            weights = weights[:, rows]
        return Draws(self.num_draws, {}, {}, self.p_y.of_rows(rows), weights)

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

    def log_joint(self, rows: Rows) -> Tensor:
        """Log-weights before y was observed plus its log-likelihood, [N, b], float64."""
        prior = -math.log(self.num_draws) if self.log_weights is None else self.log_weights
        return self.log_likelihood(rows) + prior

    def of_selected(self, response: Any, rows: Rows) -> Draws:
        """Weight draws by the probability that the row is in the data (`Response.log_selected`)."""
        log_selected = None if rows.y is None else response.log_selected(self.p_y, rows.y)
        return self if log_selected is None else self.reweighted(log_selected)

    def reweighted(self, log_factors: Tensor) -> Draws:
        """The draws with their weights multiplied by factors [N, b], or [b] of all draws."""
        log_factors = log_factors.double().expand(self.num_draws, log_factors.shape[-1])
        if self.log_weights is not None:
            log_factors = log_factors + self.log_weights
        return self._replace(log_weights=torch.log_softmax(log_factors, 0))

    def wide(self) -> dict[str, Tensor]:
        """The values [N, b, ...]: what rows or draws share is there for each of them."""
        rows = next((v.shape[1] for v in self.values.values() if v.shape[1] > 1), 1)
        return {n: v.expand(self.num_draws, rows, *v.shape[2:]) for n, v in self.values.items()}

    def select(self, index: Tensor) -> Draws:
        """The draws `index` [S, b] of every row, without the distributions of sites."""
        rows = torch.arange(index.shape[1], device=index.device)
        return Draws(len(index), {n: v[index, rows] for n, v in self.wide().items()}, {})


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws(Mapping[str, Tensor]):
    """Draws of sites by name, each [S, B, ...], and measures of their quality, each [B].

    `ess` is the effective sample size: S where they are exact, the
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

    def improve(self, index: Tensor, part: PosteriorDraws) -> None:
        """Replace the draws and the evidence of some rows where others are better, in place."""
        better = part.ess > self.ess[index]
        for name, values in part.sites.items():
            self[name][:, index[better]] = values[:, better]
        mine, theirs = self.quality(), part.quality()
        surer = part.log_evidence_error < self.log_evidence_error[index]
        for name in mine:
            which = better if name in ("ess", "pareto_k") else surer
            mine[name][index[which]] = theirs[name][which]

    def to(self, device: torch.device) -> PosteriorDraws:
        """The same on another device."""
        sites, quality = (
            {name: values.to(device) for name, values in part.items()}
            for part in (self.sites, self.quality())
        )
        return PosteriorDraws(sites, **quality)

    @classmethod
    def of_rows(cls, parts: Sequence[PosteriorDraws]) -> PosteriorDraws:
        """Draws of some rows after others."""
        sites = {name: torch.cat([part[name] for part in parts], 1) for name in parts[0]}
        quality = [part.quality() for part in parts]
        return cls(sites, **{n: torch.cat([part[n] for part in quality]) for n in quality[0]})


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
