"""Posterior draws of the latent sites of given rows, by rejection or importance resampling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.validation import one_of, positive_int, seed_of, warn_user
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.inference.reading import of
from pyro_gcm.prediction.base_samples import FixedNoise, Noise
from pyro_gcm.prediction.draws import Draws, PosteriorDraws, Rows
from pyro_gcm.prediction.predicted import HalfGuided, Predicted
from pyro_gcm.prediction.proposals import (
    MIN_PARTICLES,
    PROPOSALS_PER_DRAW,
    effective_sample_size,
    if_small,
    pareto_k,
    rejection,
    resampled,
    worth,
)

METHODS = ("auto", "enumeration", "rejection", "importance")
#: Draws, or proposals that draws are chosen from, of all rows together, that are completed at once.
DRAWS_AT_ONCE = 1 << 17
#: Proposals, at least, of which those are chosen that agree with observed sites.
_POOL = 512
#: Share of the proposals that every draw of the sites that all rows share has.
_OF_EACH = 50


class Target:
    """The latent sites of a story, given its outcome.

    :param num_samples, method, num_proposals: of `posterior_draws`.
    :param shared: values of the sites that all rows share, one for every row, [1, B, *event].
    """

    def __init__(
        self,
        model: Any,
        num_samples: int = 1,
        method: str = "auto",
        num_proposals: int = MIN_PARTICLES,
        shared: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.model, self.shared = model, shared or {}
        self.num_samples, self.method, self.num_proposals = num_samples, method, num_proposals
        self.plan, self.dtype = model.prediction_plan, model.dtype
        self.log_bound = model.response.log_likelihood_bound
        self._corrected = bool(self.plan.proposals.keys() - set(self.plan.unweighted))

    @cached_property
    def weighted(self) -> bool:
        """Whether draws before y is known have weights, of proposals or of observed sites."""
        return self._corrected or bool(self.model.observed(self.plan))

    @property
    def rejects(self) -> bool:
        """Whether proposals are accepted in proportion to their likelihood.

        Beside observed sites that is so where it is asked for.
        """
        weighted = self._corrected if self.method == "rejection" else self.weighted
        return self.log_bound is not None and not weighted and self.method != "importance"

    @property
    def enumerates(self) -> bool:
        """Whether Bayes' rule gives the draws."""
        return self.is_finite and self.method in ("auto", "enumeration")

    def check_finite(self, what: str) -> None:
        """Raise ValueError unless all that a prediction draws has finitely many values."""
        if not self.is_finite:
            raise ValueError(
                f"{what} a z with finitely many values and no other latent variable before y, as a "
                "MemberGCM, or a GCM with prior='categorical', has"
            )

    @cached_property
    def is_finite(self) -> bool:
        """Whether all that a prediction draws has finitely many values."""
        latents, informed = self.model.latents(self.plan), self.plan.informed
        values = [site.values for name, site in latents.items() if name not in informed]
        return 0 not in values and not self._corrected

    def propose(self, rows: Rows, count: int, *, guided: bool = False) -> Draws:
        """Independent draws before y is known; with `guided`, half of them come from the guide."""
        if guided and rows.y is not None and not self.plan.proposals:
            return self._read(HalfGuided(self.model, self.plan, Noise(count), rows), rows)
        return self._read(Predicted(self.model, self.plan, Noise(count), separately=True), rows)

    def unweighted(self, rows: Rows, count: int) -> Draws:
        """Proposals without weights; where observed sites weigh them, resampled from many."""
        if not self.weighted:
            return self.propose(rows, count)
        pool = self.propose(rows, max(_POOL, 8 * count))
        assert pool.log_weights is not None
        known = pool.select(resampled(pool.log_weights, count)).values
        again = self._read(Predicted(self.model, self.plan, known=known), rows)
        return again._replace(values=known)

    def every(self, rows: Rows) -> Draws:
        """All values of the latent sites with their probabilities."""
        noise = FixedNoise(self.model, self.model.latents(self.plan), 1)
        return self._read(Predicted(self.model, self.plan, noise), rows)

    def _read(self, reader: Predicted, rows: Rows) -> Draws:
        if rows.number is not None:
            reader.known_shared = {name: v[:, rows.number] for name, v in self.shared.items()}
        return reader.read(rows.x, rows.r).of_selected(self.model.response, rows)

    def likelihood(self, draws: Draws, rows: Rows) -> Tensor:
        """Likelihood of y as a share of the bound of the response, [N, b], float64."""
        share = (draws.log_likelihood(rows) - (self.log_bound or 0.0)).exp()
        return share.expand(draws.num_draws, len(rows.x))

    def complete(self, draws: Draws, rows: Rows) -> dict[str, Tensor]:
        """All sites of draws that agree with y: c (and k) exactly, and y once more, a new outcome.

        Costs are in the units of the data where there is one for each revenue.
        """
        shape = draws.num_draws, len(rows.x)
        p_y = Predicted(self.model, self.plan, known=draws.values).read(rows.x, rows.r).p_y
        sites = {name: v for name, v in draws.values.items() if name != "e"}
        sites = {name: v.expand(*shape, *v.shape[2:]) for name, v in sites.items()}
        event = getattr(p_y, "event", p_y)
        event = event if isinstance(event, OrderEvent) else None
        if event is not None and not isinstance(event.revenue, Tensor):
            # k was integrated out; then y is the event
            p_k: Any = event.revenue.expand(shape)
            if rows.y is not None:
                p_k = event.expand(shape).revenue_posterior(rows.y)
            sites["k"] = p_k.sample()
            event = p_y = event.given_revenue(sites["k"])
        p_y = p_y.expand(shape)
        if event is None:
            return sites | {"y": p_y.sample()}
        if rows.y is None:
            costs: Any = event.cost
            sites["c"] = costs.expand(shape).sample()
            sites["y"] = p_y.given_cost(sites["c"]).sample()
        else:
            sites["c"] = p_y.cost_posterior(rows.y).sample()
            sites["y"] = p_y.sample()  # the row's costs are drawn anew for it
        sites |= self.model.response.derived(p_y, sites["c"], rows.y)
        if (units := self.model.cost_units(rows.r)) is not None:
            sites["c"] = units.to_data(sites["c"])
        return sites


def posterior_draws(
    model: Any,
    rows: Rows,
    num_samples: int,
    method: str,
    num_proposals: int,
    seed: int,
    progress: bool,
) -> PosteriorDraws:
    """`num_samples` draws of every row; the options are those of `GCM.posterior`.

    :raises ValueError: for wrong options, before any work is done.
    :raises RuntimeError: for an outcome that the model excludes, and where "rejection" would need
        more than 128 proposals a draw.
    """
    num_samples = positive_int("num_samples", num_samples)
    num_proposals = positive_int("num_proposals", num_proposals, MIN_PARTICLES)
    one_of("method", method, METHODS)
    seed = seed_of(seed)
    if model.shared_sites():
        each = max(MIN_PARTICLES, num_proposals // _OF_EACH)
        draws = _with_shared(model, rows, num_samples, method, each, seed, progress)
        num_proposals = each * num_samples
    else:
        draws = _of_rows(Target(model, num_samples, method, num_proposals), rows, seed, progress)
    # Where most proposals count, a large k is the noise of its own estimate.
    heavy = (draws.pareto_k > 0.7) & (draws.ess < worth(num_samples, 0.5 * num_proposals))
    weak = (draws.ess < min(100, 0.5 * num_samples)) | heavy
    if weak.any():
        high = draws.pareto_k[draws.pareto_k > 0.7]
        tail = f" or a Pareto k above 0.7 (highest {high.max().item():.2f})" if len(high) else ""
        warn_user(
            f"{int(weak.sum())} of {len(weak)} rows have an effective sample size below 100 "
            f"(lowest {draws.ess.min().item():.1f}){tail}: their draws repeat a few "
            "values of z; raise num_proposals, or train a guide that fits better"
        )
    return draws


def _of_rows(target: Target, rows: Rows, seed: int, progress: bool) -> PosteriorDraws:
    """Draws of all rows, block by block."""
    from tqdm.auto import tqdm

    method = target.method
    if method == "enumeration":
        target.check_finite("method='enumeration' needs")
    if method == "rejection" and not target.rejects:
        raise ValueError(
            "method='rejection' needs a response with a bounded likelihood, such as 'binary', and "
            "draws before y from the story's own distributions (not so after objective='joint'): "
            "use 'importance'"
        )
    at_once = 64 if target.enumerates or target.rejects else target.num_proposals
    size = max(1, DRAWS_AT_ONCE // max(target.num_samples, at_once))
    parts = []
    randomness = Randomness(seed, rows.x.device)
    with tqdm(total=len(rows.x), disable=not progress, delay=2, desc="draws", unit="row") as bar:
        for index, block in rows.split(size):
            with randomness.in_use():
                parts.append(_draw(target, block))
            bar.update(len(index))
    return parts[0] if len(parts) == 1 else PosteriorDraws.of_rows(parts)


def _with_shared(
    model: Any, rows: Rows, num_samples: int, method: str, each: int, seed: int, progress: bool
) -> PosteriorDraws:
    """Draws of rows, each given a draw of its own of the sites that all rows share.

    Those come from their fitted guide, which has seen all rows: a row's outcome does not weigh them
    once more. Every draw of every row is a row here, with one draw.

    :param each: proposals of each of them.
    """
    count, noise, shared = len(rows.x), Noise(num_samples), {}

    def line(name: str, q: Any) -> Tensor:
        shared[name] = noise.proposed(name, of(q), 1)  # [S, 1, *event]
        return shared[name]

    with Randomness(seed, rows.x.device).in_use():
        model.guide_shared(line)
    number = torch.arange(num_samples * count, device=rows.x.device)
    pairs = rows.take(number % count)._replace(number=number)
    every = {name: v.transpose(0, 1).repeat_interleave(count, 1) for name, v in shared.items()}
    target = Target(model, 1, method, each, every)
    draws = _of_rows(target, pairs, seed, progress)
    sites = {name: v.reshape(num_samples, count, *v.shape[2:]) for name, v in draws.sites.items()}
    quality = {n: v.reshape(num_samples, count) for n, v in draws.quality().items()}
    # Evidence from proposals of their own: those above end where one is accepted.
    with Randomness(seed + 1, rows.x.device).in_use():
        some = MIN_PARTICLES if target.weighted else 1
        parts = pairs.split(DRAWS_AT_ONCE // some)
        each_log_p = [target.propose(part, some).log_joint(part).logsumexp(0) for _, part in parts]
    log_p = torch.cat(each_log_p).reshape(num_samples, count)
    log_evidence = log_p.logsumexp(0) - math.log(num_samples)
    error = (log_p - log_evidence).exp().std(0, correction=0) / num_samples**0.5
    return PosteriorDraws(
        sites,
        ess=quality["ess"].sum(0),
        pareto_k=quality["pareto_k"].median(0).values,
        log_evidence=log_evidence.to(target.dtype),
        log_evidence_error=if_small(error).to(target.dtype),
        proposals=quality["proposals"].sum(0),
    )


def _draw(target: Target, rows: Rows) -> PosteriorDraws:
    """Draws for one block of rows: exact where that is possible and affordable."""
    num_samples, num_proposals = target.num_samples, target.num_proposals
    if rows.y is None and not target.weighted:
        draws = target.propose(rows, num_samples)
        return _unweighted(target, draws, rows, num_samples, 0.0, 0.0, num_samples)
    if target.enumerates:
        every = target.every(rows)
        log_w = every.log_joint(rows)
        log_evidence = _possible(log_w.logsumexp(0))
        draws = every.select(resampled(log_w, num_samples))
        return _unweighted(target, draws, rows, num_samples, log_evidence, 0.0, math.inf)
    if not target.rejects:
        return _importance(target, rows)
    draws, tally = rejection(target.unweighted, target.likelihood, rows, num_samples, num_proposals)
    rare = (tally.accepted < num_samples).nonzero()[:, 0]
    if target.method == "rejection" and len(rare) and not target.weighted:
        raise RuntimeError(
            f"method='rejection' would need more than {PROPOSALS_PER_DRAW} proposals a draw for "
            f"{len(rare)} rows, whose outcomes have too small a probability: use 'auto'"
        )
    # Of smaller rates too little is seen.
    error = torch.where(tally.rate > 1e-10, if_small(tally.rate_error), torch.inf)
    log_evidence = tally.rate.log() + (target.log_bound or 0.0)
    exact = _unweighted(target, draws, rows, tally.accepted, log_evidence, error, tally.proposed)
    if len(rare):
        for part in rare.split(max(1, DRAWS_AT_ONCE // max(num_samples, num_proposals))):
            exact.improve(part, _importance(target, rows.take(part)))
    return exact


def _possible(log_evidence: Tensor) -> Tensor:
    """A log-evidence that is not that of impossible observations."""
    impossible = log_evidence.isinf()
    if impossible.any():
        raise RuntimeError(
            f"no proposal explains the observations of {int(impossible.sum())} rows; the model "
            "gives them probability 0"
        )
    return log_evidence


def _unweighted(target: Target, draws: Draws, rows: Rows, *quality: Any) -> PosteriorDraws:
    """Draws that need no weights.

    :param quality: their ess, the log-evidence, its error, and the number of proposals, each [b] or
        the same for all rows.
    """
    like = torch.zeros(len(rows.x), dtype=torch.float64, device=rows.x.device)
    ess, *evidence = ((like + value).to(target.dtype) for value in quality)
    return PosteriorDraws(target.complete(draws, rows), ess, ess + torch.nan, *evidence)


def _importance(target: Target, rows: Rows) -> PosteriorDraws:
    """Proposals resampled in proportion to their importance weights."""
    num_samples, num_proposals = target.num_samples, target.num_proposals
    draws = target.propose(rows, num_proposals, guided=True)
    log_w = draws.log_joint(rows)
    log_evidence = _possible(log_w.logsumexp(0))
    sites = target.complete(draws.select(resampled(log_w, num_samples)), rows)
    if (apart := draws.separate) is not None:
        sites |= apart.select(resampled(apart.log_weights, num_samples)).values
    ess = effective_sample_size(log_w)
    count = torch.full_like(ess, float(num_proposals))
    error = if_small(((count / ess - 1.0).clamp(min=0.0) / count).sqrt())
    quality = worth(num_samples, ess), pareto_k(log_w), log_evidence, error, count
    return PosteriorDraws(sites, *(value.to(target.dtype) for value in quality))
