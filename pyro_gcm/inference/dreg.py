"""The doubly reparametrised gradient of the importance-weighted bound, on Pyro's traces.

Tucker et al. (2019), "Doubly Reparameterized Gradient Estimators for Monte Carlo Objectives",
equation (8). With w~ the normalised weights of the particles of one datum, the usual gradient of
the guide's parameters phi is

    sum_n w~_n (d log w_n / dz_n dz_n/dphi - d log q(z_n; phi) / dphi).

Its last part, the score, has the expectation of sum_n w~_n (1 - w~_n) d log w_n / dz_n dz_n/dphi,
so that sum_n w~_n^2 d log w_n / dz_n dz_n/dphi has the same mean. Two changes to the graph of the
bound give just that: `drop_score` and `weigh_gradients`. Gradients of the model do not change.
"""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions.util import scale_and_mask
from pyro.poutine import Trace
from pyro.poutine.messenger import Messenger
from torch import Tensor


def sample_sites(trace: Trace) -> list[Any]:
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


def drop_score(guide_trace: Trace) -> None:
    """Take d log q / dphi at fixed z out of the guide's log-densities, whose values stay."""
    for site in _random_sites(guide_trace):
        score = _log_prob_at_fixed_value(site)
        site["log_prob"] = site["log_prob"] + (score.detach() - score)


def weigh_gradients(guide_trace: Trace, weights: Tensor, scale: float) -> None:
    """Have the gradient that reaches each value of the guide multiplied by its weight once more.

    :param weights: w~, with the dimensions of the particles and common plates in their places.
    :param scale: of the common plates, which is not part of the weights.
    """
    for site in _random_sites(guide_trace):
        if site["value"].requires_grad:
            spread = weights.detach().reshape(weights.shape + (1,) * site["fn"].event_dim)
            # Where log q has been scaled by s, so has its score: w~ - s w~ (1 - w~).
            factor = 1.0 - _share(site, scale) * (1.0 - spread)
            site["value"].register_hook(factor.mul)


def check_dreg(model_trace: Trace, guide_trace: Trace, frames: dict[int, Any]) -> None:
    """Refuse a guide for which the gradient would be wrong, or worse than the usual one.

    :param frames: the common plates, by dimension.
    """
    sites = _random_sites(guide_trace)
    for site in sites:
        inside = {frame.dim for frame in site["cond_indep_stack"]}
        for dim, frame in frames.items():
            if dim not in inside:
                raise ValueError(
                    f"gradient='dreg': site '{site['name']}' of the guide is outside plate "
                    f"'{frame.name}', so that it has no weight of its own; use gradient='iwae'"
                )
        if _is_prior(site, model_trace.nodes.get(site["name"])):
            raise ValueError(
                "gradient='dreg' is for a separate guide, but the guide of site "
                f"'{site['name']}' is its prior: there it raises the gradient's standard deviation "
                "(2 to 3 times, as measured); use gradient='iwae'"
            )
        graph = _graph(_log_prob_at_fixed_value(site))
        for other in sites:
            if other is not site and other["value"].grad_fn in graph:
                raise ValueError(
                    "gradient='dreg' needs guide sites that are independent given the data, but "
                    f"the guide of site '{site['name']}' depends on site '{other['name']}'; use "
                    "gradient='iwae'"
                )


def _random_sites(guide_trace: Trace) -> list[Any]:
    """Sites with a score. A Delta has none: it is a function of parameters and other sites."""
    drawn = [site for site in sample_sites(guide_trace) if not site["is_observed"]]
    return [site for site in drawn if not isinstance(_layers(site["fn"])[-1], dist.Delta)]


def _layers(fn: Any) -> list[Any]:
    """A distribution and what it wraps, outermost first."""
    layers = [fn]
    while hasattr(layers[-1], "base_dist"):
        layers.append(layers[-1].base_dist)
    return layers


def _log_prob_at_fixed_value(site: Any) -> Tensor:
    """The site's log-probability as Pyro computes it, detached from the value."""
    log_p = site["fn"].log_prob(site["value"].detach(), *site["args"], **site["kwargs"])
    return scale_and_mask(log_p, site["scale"], site["mask"])


def _masks(site: Any) -> list[tuple[Any, int]]:
    """Masks on a site and inside its distribution, each with the event dims to its right."""
    inside = [(getattr(fn, "_mask", None), fn.event_dim) for fn in _layers(site["fn"])]
    return [(site["mask"], site["fn"].event_dim), *inside]


def _share(site: Any, scale: float) -> Any:
    """Return the factor of log q in the weight, for each element of the value: mostly 1."""
    share = site["scale"] / scale
    if isinstance(share, Tensor):
        share = share.reshape(share.shape + (1,) * site["fn"].event_dim)
    for mask, event_dim in _masks(site):
        if isinstance(mask, Tensor):
            mask = mask.reshape(mask.shape + (1,) * event_dim)
        share = share if mask is None or mask is True else share * mask
    return share


def _is_prior(site: Any, told: Any) -> bool:
    """Whether a guide site has the density of the model, from the same parameters.

    A guide that merely starts at the prior has parameters of its own. Densities that cancel may
    have been masked out.
    """
    if any(mask is False for mask, _ in _masks(site)):
        return True
    if told is None:
        return False
    log_p, log_q = _log_prob_at_fixed_value(told), _log_prob_at_fixed_value(site)
    return torch.equal(log_p, log_q) and _leaves(log_q) <= _leaves(log_p)


def _leaves(tensor: Tensor) -> set[Any]:
    """The parameters that a tensor was computed from."""
    return {node.variable for node in _graph(tensor) if hasattr(node, "variable")}


def _graph(tensor: Tensor) -> set[Any]:
    """The nodes of the graph of a tensor."""
    nodes, seen = [tensor.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [parent for parent, _ in node.next_functions]
    return seen
