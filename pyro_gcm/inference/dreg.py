"""The doubly reparametrised gradient of an importance-weighted bound, on Pyro's traces.

With w~ the normalised weights of the particles of one datum, the usual gradient of the guide's
parameters phi is

    sum_n w~_n (d log w_n / dz_n dz_n/dphi - d log q(z_n; phi) / dphi).

Its last part, the score, has the expectation of sum_n w~_n (1 - w~_n) d log w_n / dz_n dz_n/dphi,
so that sum_n w~_n^2 d log w_n / dz_n dz_n/dphi has the same mean (Tucker et al. 2019, "Doubly
Reparameterized Gradient Estimators for Monte Carlo Objectives", equation (8)). Two changes to the
graph of the bound give just that. Gradients of the model do not change.
"""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from pyro.poutine import Trace
from pyro.poutine.messenger import Messenger
from torch import Tensor


def sites_of(trace: Trace) -> list[Any]:
    """The sites of a trace that have a distribution."""
    return [site for site in trace.nodes.values() if site["type"] == "sample"]


class FreshValues(Messenger):
    """Makes every value of the guide a tensor of its own, which all that reads it goes through.

    A transform may remember what it made a value from; log q would then pass by the value.
    """

    def _pyro_sample(self, msg: Any) -> None:
        if msg["value"] is None and getattr(msg["fn"], "has_rsample", False):
            value = msg["fn"](*msg["args"], **msg["kwargs"])
            msg["value"] = value.view_as(value)


def drop_score(guide_trace: Trace, frames: dict[int, Any], scale: float) -> None:
    """Take d log q / dphi at fixed z out of the guide's log-densities, whose values stay.

    :param frames: the common plates, by dimension; `scale`: of all sites.
    :raises ValueError: for a guide for which the gradient would be wrong.
    """
    sites = _with_scores(guide_trace)
    for site in sites:
        inside = {frame.dim for frame in site["cond_indep_stack"]}
        for dim, frame in frames.items():
            if dim not in inside:
                raise ValueError(
                    f"gradient='dreg': site '{site['name']}' of the guide is outside plate "
                    f"'{frame.name}', so that it has no weight of its own; use gradient='iwae'"
                )
        masks = [site["mask"], *(getattr(fn, "_mask", None) for fn in _layers(site["fn"]))]
        scaled = isinstance(site["scale"], Tensor) or site["scale"] != scale
        if scaled or any(mask is not None for mask in masks):
            raise ValueError(
                f"gradient='dreg': site '{site['name']}' of the guide has a scale or a mask of its "
                "own; use gradient='iwae'"
            )
        score = scale * site["fn"].log_prob(site["value"].detach(), *site["args"], **site["kwargs"])
        for other in sites if score.requires_grad else ():
            if other is not site and other["value"].requires_grad:
                (slope,) = torch.autograd.grad(
                    score.sum(), other["value"], retain_graph=True, allow_unused=True
                )
                if slope is not None:
                    raise ValueError(
                        "gradient='dreg' needs guide sites that are independent given the data, "
                        f"but the guide of site '{site['name']}' depends on site "
                        f"'{other['name']}'; use gradient='iwae'"
                    )
        site["log_prob"] = site["log_prob"] + (score.detach() - score)


def weigh_gradients(guide_trace: Trace, weights: Tensor) -> None:
    """Multiply the gradients of the guide's draws by w~, of the dimensions of the plates."""
    for site in _with_scores(guide_trace):
        if site["value"].requires_grad:
            share = weights.reshape(weights.shape + (1,) * site["fn"].event_dim)
            site["value"].register_hook(share.mul)


def _with_scores(guide_trace: Trace) -> list[Any]:
    """Sites with a score. A Delta has none: it is a function of parameters and other sites."""
    drawn = [site for site in sites_of(guide_trace) if not site["is_observed"]]
    return [site for site in drawn if not isinstance(_layers(site["fn"])[-1], dist.Delta)]


def _layers(fn: Any) -> list[Any]:
    """A distribution and what it wraps, outermost first."""
    layers = [fn]
    while hasattr(layers[-1], "base_dist"):
        layers.append(layers[-1].base_dist)
    return layers
