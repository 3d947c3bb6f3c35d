"""Draws of a model's guide, to be tested as if they were draws from the posterior."""

from __future__ import annotations

from typing import Any

import torch
from pyro import poutine
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness, evaluating, one_thread
from pyro_gcm._utils.validation import ArrayLike, positive_int, seed_of
from pyro_gcm.inference import given_inputs, uncollapse
from pyro_gcm.inference.programs import unannounced
from pyro_gcm.models.posteriors import Posteriors


@one_thread()
@torch.no_grad()
def guide_draws(
    model: Posteriors,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    num_samples: int = 1000,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Draws of the guide that the last training used, and of the costs, exactly, given them.

    They are not weighted, and so as wrong as the guide is. As the sampler of
    `simulation_based_calibration` they make it variational simulation-based calibration (VSBC; Yao
    et al. 2018, Yes, but did it work?: evaluating variational inference)::

        simulation_based_calibration(model, x, r, sampler=partial(guide_draws, model))

    There each simulated data set has an approximation of its own. A guide of this library is
    amortised: one is trained, and a simulated row is a data set, of which it is asked for its
    latent variables.

    :param x: [B, x_dim] in data units; `r`: [B, r_dim]; `y`: [B].
    :param num_samples: draws S of each row.
    :returns: draws by site, [S, B, ...]: those of the guide, and c in the units of the program.
    :raises ValueError: for wrong shapes or values, and for a model that sums z out, without a
        guide.

    >>> from pyro_gcm import GCM
    >>> draws = guide_draws(GCM(2, 1), torch.zeros(3, 2), torch.zeros(3, 1), torch.ones(3))
    >>> {site: tuple(values.shape) for site, values in draws.items()}
    {'z': (1000, 3, 4), 'c': (1000, 3, 1)}
    """
    count, seed = positive_int("num_samples", num_samples), seed_of(seed)
    rows = model.rows(x, r, y, required="xry")
    pair = model.training_pair(model.objective)
    if pair.enumerated:
        raise ValueError(
            f"guide_draws needs a model with a guide: this one sums {pair.enumerated[0]} out, and "
            "`posterior` draws it exactly"
        )
    program: Any = given_inputs(model.model) if "r" in pair.plan.given else model.model
    program = uncollapse(program, kernel="k" if "k" in pair.plan.left else None)
    known = [part for part in rows if part is not None]
    data = [part.repeat(count, *[1] * (part.dim() - 1)) for part in known]
    with evaluating(model), unannounced(), Randomness(seed, model.device).in_use():
        guided: Any = poutine.trace(pair.guide).get_trace(*data).nodes
        sites = {name: guided[name]["value"] for name in guided if _is_latent(guided[name])}
        drawn: Any = poutine.trace(poutine.condition(program, sites)).get_trace(*data).nodes
    sites |= {name: drawn[name]["value"] for name in ("k", "c") if name in drawn}
    return {name: values.unflatten(0, (count, len(rows.x))) for name, values in sites.items()}


def _is_latent(site: Any) -> bool:
    return site["type"] == "sample" and not site["is_observed"] and site["name"] != "data"
