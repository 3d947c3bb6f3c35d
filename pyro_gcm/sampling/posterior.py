"""Posterior draws of the latent sites of given rows, by rejection or importance resampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from pyro_gcm._validation import one_of, positive_int
from pyro_gcm._warn import warn_user
from pyro_gcm.sampling.draws import Draws, Rows, pick
from pyro_gcm.sampling.psis import MIN_PARTICLES, effective_sample_size, pareto_k

METHODS = ("auto", "rejection", "importance")
#: Proposals, of all rows together, that are in memory at once.
_PROPOSALS_AT_ONCE = 1 << 18
#: Rejection gives up on a row that needs more proposals than this for each draw.
_PROPOSALS_PER_DRAW = 128


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws(Mapping[str, Tensor]):
    """Draws of sites by name, each [S, B, ...], and measures of their quality, each [B].

    `ess` is the effective number of independent draws of z: S where they are exact, the number of
    accepted ones where rejection ended before, otherwise the effective sample size of the proposals
    that they were resampled from. `pareto_k` is the Pareto shape of the importance weights, NaN
    where there are none; above 0.7 the weights are unreliable. `log_evidence` is a Monte Carlo
    estimate, from `proposals` proposals and with standard error `log_evidence_error`, of
    log p(y | x, r) in nats, or of log p(y, c_observed | x, r) if costs were observed; 0 where
    nothing was.
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

    def with_sites(self, **sites: Tensor) -> PosteriorDraws:
        """The same with these sites added or replaced."""
        return replace(self, sites={**self.sites, **sites})

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


class Target(NamedTuple):
    """What posterior draws are of, as functions of rows.

    :param propose: (rows, number, guided) -> draws of what comes before y; with `guided`, half of
        them come from a guide that has seen y, if there is one.
    :param log_likelihood: (draws, rows) -> log-probability of what was observed, [N, b], float64.
    :param complete: (draws, rows) -> all sites of draws that agree with what was observed.
    :param weighted: whether proposals have weights before y is known.
    :param log_bound: upper bound of the log-likelihood of y, which rejection needs, or None.
    :param dtype: of the results.
    """

    propose: Callable[[Rows, int, bool], Draws]
    log_likelihood: Callable[[Draws, Rows], Tensor]
    complete: Callable[[Draws, Rows], dict[str, Tensor]]
    weighted: bool
    log_bound: float | None
    dtype: torch.dtype

    def allows_rejection(self, rows: Rows) -> bool:
        """Whether proposals can be accepted in proportion to their likelihood."""
        return self.log_bound is not None and not self.weighted and rows.c is None


def posterior_draws(
    target: Target,
    rows: Rows,
    *,
    num_samples: int = 1000,
    method: str = "auto",
    num_proposals: int = 4096,
    seed: int = 0,
    progress: bool = True,
) -> PosteriorDraws:
    """`num_samples` draws of every row; the options are those of `GCM.posterior`.

    :raises ValueError: for wrong options, before any work is done.
    :raises RuntimeError: for an outcome that the model excludes, and where "rejection" would need
        more than 128 proposals a draw.
    """
    from tqdm.auto import tqdm

    num_samples = positive_int("num_samples", num_samples)
    num_proposals = positive_int("num_proposals", num_proposals, MIN_PARTICLES)
    seed = positive_int("seed", seed, minimum=0)
    one_of("method", method, METHODS)
    if method == "rejection" and not target.allows_rejection(rows):
        raise ValueError(
            "method='rejection' needs a response with a bounded likelihood, such as 'binary', no "
            "observed costs, and draws before y that have no weights (not so after "
            "objective='joint', nor with a kernel_prior that is not normal): use 'importance'"
        )
    # Missing values of x or r are drawn as well: rows with and without do not mix in a block.
    incomplete = rows.x.isnan().any(-1) | rows.r.isnan().any(-1)
    size = max(1, _PROPOSALS_AT_ONCE // max(num_samples, num_proposals))
    kinds = [kind.nonzero()[:, 0] for kind in (~incomplete, incomplete)]
    groups = [index for kind in kinds for index in kind.split(size) if len(index)]
    parts = []
    with (
        torch.random.fork_rng(devices=[rows.x.device] if rows.x.is_cuda else []),
        tqdm(total=len(rows.x), disable=not progress, delay=2, desc="draws", unit="row") as bar,
    ):
        torch.manual_seed(seed)
        for index in groups:
            block = rows.take(index)
            draws = _draw(target, block, num_samples, method, num_proposals)
            if incomplete.any():
                inputs = {"x": block.x, "r": block.r, **draws.sites}
                whole = {k: inputs[k].expand(num_samples, len(index), -1) for k in ("x", "r")}
                draws = draws.with_sites(**whole)
            parts.append(draws)
            bar.update(len(index))
    merged = parts[0] if len(parts) == 1 else _merged(groups, parts)
    _warn_of_few_draws(merged, num_samples, num_proposals)
    return merged


def _warn_of_few_draws(draws: PosteriorDraws, num_samples: int, num_proposals: int) -> None:
    # Where most proposals count, a large k is the noise of its own estimate.
    heavy = (draws.pareto_k > 0.7) & (draws.ess < 0.5 * num_proposals)
    weak = (draws.ess < min(100, num_samples)) | heavy
    if weak.any():
        warn_user(
            f"{int(weak.sum())} of {len(weak)} rows have an effective sample size below 100 "
            f"(lowest {draws.ess.min().item():.1f}) or a Pareto k above 0.7 (highest "
            f"{draws.pareto_k.nan_to_num(-math.inf).max().item():.2f}): their draws repeat a few "
            "values of z; raise num_proposals, or train a guide that fits better"
        )


def _draw(
    target: Target, rows: Rows, num_samples: int, method: str, num_proposals: int
) -> PosteriorDraws:
    """Draws for one block of rows: exact where that is possible and affordable."""
    if rows.y is None and rows.c is None and not target.weighted:
        draws = target.propose(rows, num_samples, False)
        zero = torch.zeros(len(rows.x), dtype=target.dtype, device=rows.x.device)
        evidence: tuple[Tensor, ...] = (zero, zero, zero + num_samples)
        return _unweighted(target, draws, rows, zero + num_samples, evidence)
    if method == "importance" or not target.allows_rejection(rows):
        return _importance(target, rows, num_samples, num_proposals)
    draws, accepted, evidence = _rejection(target, rows, num_samples)
    rare = (accepted < num_samples).nonzero()[:, 0]
    if method == "rejection" and len(rare):
        raise RuntimeError(
            f"method='rejection' would need more than {_PROPOSALS_PER_DRAW} proposals a draw for "
            f"{len(rare)} rows, whose outcomes have too small a probability: use 'auto'"
        )
    exact = _unweighted(target, draws, rows, accepted, evidence)
    if len(rare):
        part = _importance(target, rows.take(rare), num_samples, num_proposals)
        _improve(exact, rare, part)
    return exact


def _unweighted(
    target: Target, draws: Draws, rows: Rows, ess: Tensor, evidence: tuple[Tensor, ...]
) -> PosteriorDraws:
    sites = target.complete(draws, rows)
    return PosteriorDraws(sites, ess, torch.full_like(ess, torch.nan), *evidence)


def _rejection(
    target: Target, rows: Rows, num_samples: int
) -> tuple[Draws, Tensor, tuple[Tensor, ...]]:
    """Proposals accepted in proportion to p(y | z), how many they are, and the log-evidence.

    Rows that took too many proposals repeat those that were accepted.
    """
    assert target.log_bound is not None
    count, device = len(rows.x), rows.x.device
    active, filled = torch.arange(count, device=device), torch.zeros_like(rows.x[:, 0]).long()
    proposed = torch.zeros_like(filled)
    totals = torch.full((2, count), -math.inf, dtype=torch.float64, device=device)
    kept: Draws | None = None
    spent, size = 0, 2 * num_samples
    while len(active) and spent < _PROPOSALS_PER_DRAW * num_samples:
        left = _PROPOSALS_PER_DRAW * num_samples - spent
        size = max(1, min(size, left, _PROPOSALS_AT_ONCE // len(active)))
        part = rows.take(active)
        draws = target.propose(part, size, False)
        log_p = target.log_likelihood(draws, part)
        uniform = torch.rand(log_p.shape, dtype=log_p.dtype, device=device)
        accept = uniform.log() < log_p - target.log_bound
        place = filled[active] + accept.cumsum(0) - 1
        draw, row = (accept & (place < num_samples)).nonzero(as_tuple=True)
        if kept is None:
            kept = draws.zeros(num_samples)
        kept.put(place[draw, row], active[row], draws, draw, row)
        filled[active] += accept.sum(0)
        proposed[active] += size
        sums = torch.stack([log_p.logsumexp(0), (2.0 * log_p).logsumexp(0)])
        totals[:, active] = torch.logaddexp(totals[:, active], sums)
        active = active[filled[active] < num_samples]
        spent, size = spent + size, 2 * size
    assert kept is not None
    filled = filled.clamp(max=num_samples)
    place = torch.arange(num_samples, device=device).unsqueeze(1).expand(-1, count)
    again = (torch.rand(place.shape, device=device) * filled).long()
    kept = kept.select(torch.where(filled < num_samples, again, place))
    evidence = _evidence(totals, proposed.double())
    return kept, filled.to(target.dtype), tuple(value.to(target.dtype) for value in evidence)


def _evidence(totals: Tensor, proposed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-evidence, its error by the delta method, and the number of proposals, each [b].

    :param totals: logarithms of the sums of the weights and of their squares, [2, b].
    """
    ess = (2.0 * totals[0] - totals[1]).exp()
    error = ((proposed / ess - 1.0).clamp(min=0.0) / proposed).sqrt()
    return totals[0] - proposed.log(), error, proposed


def _improve(draws: PosteriorDraws, index: Tensor, part: PosteriorDraws) -> None:
    """Replace the draws and the evidence of some rows where others are better, in place."""
    better = part.ess > draws.ess[index]
    for name, values in part.sites.items():
        draws[name][:, index[better]] = values[:, better]
    mine, theirs = draws.quality(), part.quality()
    surer = part.log_evidence_error < draws.log_evidence_error[index]
    for name in mine:
        which = better if name in ("ess", "pareto_k") else surer
        mine[name][index[which]] = theirs[name][which]


def _importance(target: Target, rows: Rows, num_samples: int, num_proposals: int) -> PosteriorDraws:
    """Proposals resampled in proportion to their importance weights."""
    draws = target.propose(rows, num_proposals, True)
    log_w = target.log_likelihood(draws, rows)
    prior = -math.log(num_proposals) if draws.log_weights is None else draws.log_weights
    log_w = log_w + prior
    impossible = log_w.logsumexp(0).isinf()
    if impossible.any():
        raise RuntimeError(
            f"no proposal explains the observations of {int(impossible.sum())} rows; the model "
            "gives them probability 0"
        )
    sites = target.complete(draws.select(_resampled(log_w, num_samples)), rows)
    for name, (values, own) in draws.separate.items():
        sites[name] = pick(values, _resampled(own, num_samples))
    totals = torch.stack([log_w.logsumexp(0), (2.0 * log_w).logsumexp(0)]) + math.log(num_proposals)
    totals[1] += math.log(num_proposals)
    evidence = _evidence(totals, torch.full_like(totals[0], float(num_proposals)))
    quality = effective_sample_size(log_w), pareto_k(log_w), *evidence
    return PosteriorDraws(sites, *(value.to(target.dtype) for value in quality))


def _resampled(log_weights: Tensor, num_samples: int) -> Tensor:
    """Indices [S, b] of draws in proportion to their weights [N, b]."""
    return torch.distributions.Categorical(logits=log_weights.T).sample((num_samples,))


def _merged(groups: list[Tensor], parts: list[PosteriorDraws]) -> PosteriorDraws:
    """Draws of disjoint groups of rows, in the order of the rows."""
    place = torch.cat(groups).argsort()
    sites = {
        name: torch.cat([part[name] for part in parts], 1).index_select(1, place)
        for name in parts[0]
    }
    qualities = [part.quality() for part in parts]
    quality = {name: torch.cat([part[name] for part in qualities])[place] for name in qualities[0]}
    return PosteriorDraws(sites, **quality)
