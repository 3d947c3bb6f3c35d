"""Posterior draws of rows, each given a draw of its own of the sites that all rows share."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.validation import positive_int, seed_of
from pyro_gcm.inference.reading import of
from pyro_gcm.prediction.base_samples import Noise
from pyro_gcm.prediction.draws import PosteriorDraws, Rows
from pyro_gcm.prediction.posterior import (
    DRAWS_AT_ONCE,
    Target,
    if_small,
    log_joint,
    posterior_draws,
    warn_of_few_draws,
)
from pyro_gcm.prediction.proposals import MIN_PARTICLES

#: Share of the proposals that every draw of the sites that all rows share has.
_OF_EACH = 50


def with_shared(model: Any, rows: Rows, **options: Any) -> PosteriorDraws:
    """Posterior draws of rows, each given a draw of its own of the sites that all rows share.

    Those come from their fitted guide, which has seen all rows: a row's outcome does not weigh them
    once more. Every draw of every row is a row here, with one draw.

    :param options: of `posterior_draws`.
    """
    num_samples, count = positive_int("num_samples", options["num_samples"]), len(rows.x)
    proposals = positive_int("num_proposals", options["num_proposals"]) // _OF_EACH
    options |= {"num_samples": 1, "num_proposals": max(MIN_PARTICLES, proposals)}
    noise, shared = Noise(num_samples), {}

    def line(name: str, q: Any) -> Tensor:
        shared[name] = noise.proposed(name, of(q), 1)  # [S, 1, *event]
        return shared[name]

    with Randomness(seed_of(options["seed"]), rows.x.device).in_use():
        model.guide_shared(line)
    number = torch.arange(num_samples * count, device=rows.x.device)
    pairs = rows.take(number % count)._replace(number=number)
    each = {name: v.transpose(0, 1).repeat_interleave(count, 1) for name, v in shared.items()}
    target = Target(model, each)
    draws = posterior_draws(target, pairs, **options, warns=False)
    sites = {name: v.reshape(num_samples, count, *v.shape[2:]) for name, v in draws.sites.items()}
    quality = {n: v.reshape(num_samples, count) for n, v in draws.quality().items()}
    # Evidence from proposals of their own: those above end where one is accepted.
    with Randomness(seed_of(options["seed"]) + 1, rows.x.device).in_use():
        some = MIN_PARTICLES if target.weighted else 1
        parts = pairs.split(DRAWS_AT_ONCE // some)
        each_log_p = [log_joint(target.propose(part, some), part).logsumexp(0) for _, part in parts]
    log_p = torch.cat(each_log_p).reshape(num_samples, count)
    log_evidence = log_p.logsumexp(0) - math.log(num_samples)
    error = (log_p - log_evidence).exp().std(0, correction=0) / num_samples**0.5
    found = PosteriorDraws(
        sites,
        ess=quality["ess"].sum(0),
        pareto_k=quality["pareto_k"].median(0).values,
        log_evidence=log_evidence.to(target.dtype),
        log_evidence_error=if_small(error).to(target.dtype),
        proposals=quality["proposals"].sum(0),
    )
    warn_of_few_draws(found, num_samples, options["num_proposals"] * num_samples)
    return found
