"""Draws of the latent sites of given rows, conditioned on their outcomes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from tqdm.auto import tqdm

from pyro_gcm._validation import ArrayLike, one_of, positive_int
from pyro_gcm.distributions.numerics import rounded_up
from pyro_gcm.inference.pareto import MIN_PARTICLES, effective_sample_size, pareto_k
from pyro_gcm.models.latents import (
    Latents,
    Rows,
    checked_rows,
    complete_sites,
    log_likelihood,
    propose,
)
from pyro_gcm.models.responses import Binary

if TYPE_CHECKING:
    from pyro_gcm.models.inspection import Inspection

METHODS = ("auto", "rejection", "importance")
#: Proposals, of all rows together, that are in memory at once.
_PROPOSALS_AT_ONCE = 1 << 18
#: Rejection gives up on a row that needs more proposals than this for each draw.
_PROPOSALS_PER_DRAW = 128


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws(Mapping[str, Tensor]):
    """Draws of sites by name, each [S, B, ...], and what is known of their quality, each [B].

    `ess` is the effective number of independent draws of z: S where they are exact, the number of
    accepted ones where rejection ended before, else the effective sample size of the proposals they
    were resampled from. `pareto_k` is the Pareto shape of the importance weights, NaN where there
    are none; above 0.7 weights cannot be relied on. `log_evidence` is a Monte Carlo estimate, from
    that many `proposals` and with that `log_evidence_error`, of log p(y | x, r) in nats, or of
    log p(y, c_seen | x, r) if costs were seen; 0 where nothing was.
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
        return PosteriorDraws(kept, **self.quality())

    def quality(self) -> dict[str, Tensor]:
        """Everything but the sites, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "sites"}


def posterior_draws(
    model: Inspection,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike | None,
    c: ArrayLike | None,
    *,
    num_samples: int = 1000,
    units: str = "standard",
    method: str = "auto",
    num_proposals: int = 4096,
    seed: int = 0,
    progress: bool = True,
) -> PosteriorDraws:
    """What `Inspection.posterior` returns; see there."""
    rows = checked_rows(model, x, r, y, c)
    num_samples = positive_int("num_samples", num_samples)
    num_proposals = positive_int("num_proposals", num_proposals, MIN_PARTICLES)
    seed = positive_int("seed", seed, minimum=0)
    one_of("method", method, METHODS)
    one_of("units", units, ("standard", "data"))
    if units == "data" and not model.costs_have_units:
        raise ValueError(
            "units='data' needs a cost in the units of each revenue, as GCM with "
            "revenue_map='identity' has"
        )
    if method == "rejection":
        _check_rejection(model, rows)
    # What is missing of x or r is drawn as well: rows with and without do not mix in a block.
    incomplete = rows.x.isnan().any(-1) | rows.r.isnan().any(-1)
    size = max(1, _PROPOSALS_AT_ONCE // max(num_samples, num_proposals))
    kinds = [kind.nonzero()[:, 0] for kind in (~incomplete, incomplete)]
    groups = [index for kind in kinds for index in kind.split(size) if len(index)]
    parts = []
    devices = [model.device] if model.device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=devices),
        tqdm(total=len(rows.x), disable=not progress, delay=2, desc="draws", unit="row") as bar,
    ):
        torch.manual_seed(seed)
        for index in groups:
            block = rows.take(index)
            parts.append(_draw(model, block, num_samples, method, num_proposals))
            if incomplete.any():
                inputs = {"x": block.x, "r": block.r, **parts[-1].sites}
                whole = {k: inputs[k].expand(num_samples, len(index), -1) for k in ("x", "r")}
                parts[-1] = _with_sites(parts[-1], **whole)
            bar.update(len(index))
    draws = _merged(groups, parts)
    if units == "data":
        draws = _with_sites(draws, c=_in_data_units(model, draws, rows))
    _warn(draws, num_samples, num_proposals)
    return draws


def _in_data_units(model: Inspection, draws: PosteriorDraws, rows: Rows) -> Tensor:
    """Draws of c in the units of r: rounding does not cross r, and what was seen stays as it is."""
    loc, scale = model._cost_units()
    below = draws["c"] < model._revenue_given(rows.r, draws)
    c, r = loc + scale * draws["c"], draws.get("r", rows.r)
    if rows.c is not None:
        c = torch.where(rows.c.isnan(), c, rows.c.to(c.dtype))
    lowest = rounded_up(r, c.dtype)  # the first number of this type that is not below r
    highest = torch.nextafter(lowest, lowest.new_tensor(-math.inf))
    return torch.where(below, torch.minimum(c, highest), torch.maximum(c, lowest))


def _weighted(model: Inspection) -> bool:
    """Whether draws of what comes before y have importance weights."""
    if model.objective == "joint":
        return True
    # `IGCM` draws k from a guide where p(k | x, r) is not known; its paper's objective means it.
    return model.objective != "paper" and not getattr(model, "exact_kernel", True)


def _can_reject(model: Inspection, rows: Rows) -> bool:
    """Whether proposals are unweighted and the likelihood is at most 1."""
    return isinstance(model.response, Binary) and not _weighted(model) and rows.c is None


def _check_rejection(model: Inspection, rows: Rows) -> None:
    if not _can_reject(model, rows):
        raise ValueError(
            "method='rejection' needs response='binary', no costs that were seen, and draws before "
            "y that have no weights (not so after objective='joint', nor with a kernel_prior that "
            "is not normal): use 'importance'"
        )


def _warn(draws: PosteriorDraws, num_samples: int, num_proposals: int) -> None:
    # Where most proposals count, a large k is the noise of its own estimate.
    heavy = (draws.pareto_k > 0.7) & (draws.ess < 0.5 * num_proposals)
    weak = (draws.ess < min(100, num_samples)) | heavy
    if weak.any():
        warnings.warn(
            f"{int(weak.sum())} of {len(weak)} rows have an effective sample size below 100 "
            f"(lowest {draws.ess.min().item():.1f}) or a Pareto k above 0.7 (highest "
            f"{draws.pareto_k.nan_to_num(-math.inf).max().item():.2f}): a few values of z stand "
            "for all of their draws; raise num_proposals, or train a guide that fits better",
            stacklevel=5,
        )


def _draw(
    model: Inspection, rows: Rows, num_samples: int, method: str, num_proposals: int
) -> PosteriorDraws:
    """Draws for one block of rows: exact where that is possible and affordable."""
    if rows.y is None and rows.c is None and not _weighted(model):
        latents = propose(model, rows, num_samples).latents
        zero = model.noise.noise.new_zeros(len(rows.x))
        return _unweighted(
            model, latents, rows, zero + num_samples, (zero, zero, zero + num_samples)
        )
    if method == "importance" or not _can_reject(model, rows):
        return _importance(model, rows, num_samples, num_proposals)
    latents, accepted, evidence = _rejection(model, rows, num_samples)
    rare = (accepted < num_samples).nonzero()[:, 0]
    if method == "rejection" and len(rare):
        raise RuntimeError(
            f"method='rejection' would need more than {_PROPOSALS_PER_DRAW} proposals a draw for "
            f"{len(rare)} rows, whose outcomes have too small a probability: use 'auto'"
        )
    draws = _unweighted(model, latents, rows, accepted, evidence)
    if len(rare):
        part = _importance(model, rows.take(rare), num_samples, num_proposals)
        _improve(draws, rare, part)
    return draws


def _unweighted(
    model: Inspection, latents: Latents, rows: Rows, ess: Tensor, evidence: tuple[Tensor, ...]
) -> PosteriorDraws:
    sites = complete_sites(model, latents, rows)
    return PosteriorDraws(sites, ess, torch.full_like(ess, torch.nan), *evidence)


def _rejection(
    model: Inspection, rows: Rows, num_samples: int
) -> tuple[Latents, Tensor, tuple[Tensor, ...]]:
    """Proposals accepted with probability p(y | z), how many they are, and the log-evidence.

    Rows that took too many proposals repeat those that were accepted.
    """
    count, device = len(rows.x), rows.x.device
    active, filled = torch.arange(count, device=device), torch.zeros_like(rows.x[:, 0]).long()
    proposed = torch.zeros_like(filled)
    totals = torch.full((2, count), -math.inf, dtype=torch.float64, device=device)
    kept: Latents | None = None
    spent, size = 0, 2 * num_samples
    while len(active) and spent < _PROPOSALS_PER_DRAW * num_samples:
        left = _PROPOSALS_PER_DRAW * num_samples - spent
        size = max(1, min(size, left, _PROPOSALS_AT_ONCE // len(active)))
        part = rows.take(active)
        latents, event, _, _ = propose(model, part, size)
        log_p = log_likelihood(model, event, latents.covariates, part)
        uniform = torch.rand(log_p.shape, dtype=log_p.dtype, device=device)
        accept = uniform.log() < log_p
        place = filled[active] + accept.cumsum(0) - 1
        draw, row = (accept & (place < num_samples)).nonzero(as_tuple=True)
        if kept is None:
            kept = latents.zeros(num_samples)
        kept.put(place[draw, row], active[row], latents, draw, row)
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
    dtype = model.noise.noise.dtype
    return kept, filled.to(dtype), tuple(value.to(dtype) for value in evidence)


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


def _importance(
    model: Inspection, rows: Rows, num_samples: int, num_proposals: int
) -> PosteriorDraws:
    """Proposals resampled in proportion to their importance weights."""
    latents, event, log_weights, others = propose(model, rows, num_proposals, guided=True)
    log_w = log_likelihood(model, event, latents.covariates, rows)
    log_w = log_w + (-math.log(num_proposals) if log_weights is None else log_weights)
    impossible = log_w.logsumexp(0).isinf()
    if impossible.any():
        raise RuntimeError(
            f"no proposal explains what was seen of {int(impossible.sum())} rows; the model gives "
            "it probability 0"
        )
    kept = latents.select(_resampled(log_w, num_samples))
    sites = complete_sites(model, kept, rows)
    for name, (values, own) in others.items():
        sites[name] = Latents.pick(values, _resampled(own, num_samples))
    totals = torch.stack([log_w.logsumexp(0), (2.0 * log_w).logsumexp(0)]) + math.log(num_proposals)
    totals[1] += math.log(num_proposals)
    evidence = _evidence(totals, torch.full_like(totals[0], float(num_proposals)))
    quality = effective_sample_size(log_w), pareto_k(log_w), *evidence
    return PosteriorDraws(sites, *(value.to(model.noise.noise.dtype) for value in quality))


def _resampled(log_weights: Tensor, num_samples: int) -> Tensor:
    """Indices [S, b] of draws in proportion to their weights [N, b]."""
    return torch.distributions.Categorical(logits=log_weights.T).sample((num_samples,))


def _with_sites(draws: PosteriorDraws, **sites: Tensor) -> PosteriorDraws:
    return PosteriorDraws({**draws.sites, **sites}, **draws.quality())


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
