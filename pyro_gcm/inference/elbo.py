"""The importance-weighted bound, and its doubly reparametrised gradient, on Pyro's traces.

With w~ the normalised weights of the particles of one datum, the usual gradient of the guide's
parameters phi is

    sum_n w~_n (d log w_n / dz_n dz_n/dphi - d log q(z_n; phi) / dphi).

Its last part, the score, has the expectation of sum_n w~_n (1 - w~_n) d log w_n / dz_n dz_n/dphi,
so that sum_n w~_n^2 d log w_n / dz_n dz_n/dphi has the same mean (Tucker et al. 2019, "Doubly
Reparameterized Gradient Estimators for Monte Carlo Objectives", equation (8)). Two changes to the
graph of the bound give just that. Gradients of the model do not change.
"""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import torch
from pyro.infer import ELBO
from pyro.infer.enum import get_importance_trace
from pyro.poutine import Trace
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes, number, one_of, positive_int
from pyro_gcm.inference.reading import Program

_GRADIENTS = ("iwae", "dreg")


def importance_weighted(log_w: Tensor, alpha: float = 0.0) -> Tensor:
    """1 / (1 - alpha) log 1/N sum_n w_n^(1 - alpha), from log w along dimension 0."""
    power = 1.0 - alpha
    return (torch.logsumexp(power * log_w, 0) - math.log(len(log_w))) / power


class ImportanceWeightedELBO(ELBO):
    """log mean over particles of the importance weights, for every datum inside the common plates.

        L = sum_i 1/(1 - alpha) log 1/N sum_n w_in^(1 - alpha),   w_in = p(y_i, z_in) / q(z_in)

    With alpha = 0 that is the bound of IWAE (Burda et al. 2016, the loss in the paper's equation
    (gcm_loss)), otherwise Renyi's (Li & Turner 2016). A weight belongs to one datum: log-densities
    are summed over every plate that is not common to all sites of the model. The scale of a
    subsampled common plate is taken off before the logarithm and put back after it, so that

        with pyro.plate("data", 640, subsample_size=64):

    gives an unbiased estimate of the bound on all 640 rows (Pyro's RenyiELBO scales inside). So
    does `pyro.poutine.scale` around both the program and its guide; around some of their sites it
    tempers their densities, as `inference.temper` does.

    :param num_particles: N.
    :param alpha: order of Renyi's bound, not 1.
    :param gradient: "iwae", the reparametrised gradient of the bound, or "dreg", the doubly
        reparametrised one (Tucker et al. 2019): the same mean, and for a guide near the posterior a
        far smaller standard deviation of the guide's gradient. It is valid where the guide's sites
        are conditionally independent given the data, each inside all common plates and with a
        log-density that can be computed from its value alone, without a scale or a mask of its
        own. It is for a separate guide: where the guide is the prior it raises the standard
        deviation, 2 to 3 times as measured.
    :param max_plate_nesting: nesting of the program's plates; guessed by a run when left out. The
        particles are one more plate.
    :raises ValueError: for alpha = 1, no particles, an unknown gradient, "dreg" with an alpha other
        than 0 or a guide for which it would be wrong, or a subsampled plate that is not common to
        all sites (its scale has no place in a per-datum bound).
    """

    def __init__(
        self,
        num_particles: int = 32,
        alpha: float = 0.0,
        gradient: str = "iwae",
        *,
        max_plate_nesting: float = math.inf,
    ) -> None:
        num_particles = positive_int("num_particles", num_particles)
        if number("alpha", alpha) == 1.0:
            raise ValueError("alpha=1 is the ordinary bound: use Trace_ELBO or TraceMeanField_ELBO")
        one_of("gradient", gradient, _GRADIENTS)
        if gradient == "dreg" and alpha != 0.0:
            raise ValueError(f"alpha must be 0 with gradient='dreg', got alpha={alpha}")
        self.alpha, self.gradient = alpha, gradient
        super().__init__(
            num_particles=num_particles,
            max_plate_nesting=max_plate_nesting,
            vectorize_particles=True,
        )

    def _get_trace(
        self, model: Program, guide: Program, args: Any, kwargs: Any
    ) -> tuple[Trace, Trace]:
        if self.gradient == "dreg" and torch.is_grad_enabled():
            guide = _FreshValues()(guide)
        return get_importance_trace("flat", self.max_plate_nesting, model, guide, args, kwargs)

    def log_weights(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """log w of every particle and datum, [N, B]; [N] if the sites share no plate."""
        return self._log_weights(model, guide, args, kwargs)[0]

    def _log_weights(
        self, model: Program, guide: Program, args: Any, kwargs: Any, reparametrized: bool = False
    ) -> tuple[Tensor, float]:
        """The log-weights, and the scale of the common plates."""
        ((model_trace, guide_trace),) = self._get_traces(model, guide, args, kwargs)
        for site in _sites(guide_trace) if reparametrized else ():
            if not (site["is_observed"] or getattr(site["fn"], "has_rsample", False)):
                raise ValueError(
                    f"site '{site['name']}' of the guide has no reparametrised sampler "
                    f"({type(site['fn']).__name__}); the bound cannot be differentiated through it"
                )
        frames, several = _common_frames(model_trace), self.num_particles > 1
        # The particles are the outermost dimension.
        sizes = {-int(self.max_plate_nesting): self.num_particles} if several else {}
        sizes |= {dim: frames[dim].size for dim in sorted(frames)}
        layout = [sizes.get(dim, 1) for dim in range(min(sizes, default=0), 0)]
        scale = _common_scale(model_trace, guide_trace, frames)
        doubly = reparametrized and self.gradient == "dreg" and torch.is_grad_enabled()
        if doubly:
            _drop_score(guide_trace, frames, scale)
        log_w: Any = 0.0
        for sign, trace in ((1.0, model_trace), (-1.0, guide_trace)):
            for site in _sites(trace):
                log_p = site["log_prob"] / scale
                other = [d for d in range(-log_p.dim(), 0) if d not in sizes]
                log_w = log_w + sign * (log_p.sum(other, keepdim=True) if other else log_p)
        # All other dimensions have been summed and have size 1 by now.
        log_w = log_w.expand(broadcast_shapes(log_w.shape, layout)).reshape([*sizes.values()])
        log_w = log_w if several else log_w[None]
        if doubly:
            weights = log_w.detach().softmax(0).reshape(layout)
            for site in _random_sites(guide_trace):
                if site["value"].requires_grad:  # its gradient is multiplied by w~ once more
                    share = weights.reshape(weights.shape + (1,) * site["fn"].event_dim)
                    site["value"].register_hook(share.mul)
        return log_w, scale

    def row_losses(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """Minus the bound of every datum, [B], of which `differentiable_loss` is the sum."""
        log_w, scale = self._log_weights(model, guide, args, kwargs, reparametrized=True)
        return -scale * importance_weighted(log_w, self.alpha)

    def differentiable_loss(
        self, model: Program, guide: Program, *args: Any, **kwargs: Any
    ) -> Tensor:
        """The sum of `row_losses`, as a tensor to differentiate.

        :raises ValueError: if a site of the guide cannot be reparametrised.
        """
        return self.row_losses(model, guide, *args, **kwargs).sum()

    @torch.no_grad()
    def loss(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """The same without a gradient."""
        return self.differentiable_loss(model, guide, *args, **kwargs)

    def loss_and_grads(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """The same; its gradient is added to the parameters (for `pyro.infer.SVI`)."""
        loss = self.differentiable_loss(model, guide, *args, **kwargs)
        if loss.requires_grad:
            loss.backward(retain_graph=self.retain_graph)
        return loss.detach()


def _sites(trace: Trace) -> list[Any]:
    """The sites of a trace that have a distribution."""
    return [site for site in trace.nodes.values() if site["type"] == "sample"]


def _common_scale(model_trace: Trace, guide_trace: Trace, frames: dict[int, Any]) -> float:
    """The factor of all sites: that of the common plates, and of a `poutine.scale` around both."""
    sites = [*_sites(model_trace), *_sites(guide_trace)]
    scales = [site["scale"] for site in sites]
    if all(isinstance(scale, float | int) and scale == scales[0] for scale in scales):
        return float(scales[0])
    return math.prod((f.full_size or f.size) / f.size for f in frames.values())


def _common_frames(model_trace: Trace) -> dict[int, Any]:
    """Vectorised plates that all sites of the model share, by dimension, without the particles'."""
    stacks = [
        {f.dim: f for f in stack if f.vectorized and f.name != "num_particles_vectorized"}
        for stack in (site["cond_indep_stack"] for site in _sites(model_trace))
    ]
    common = set.intersection(*map(set, stacks)) if stacks else set()
    for frame in (frame for stack in stacks for frame in stack.values()):
        if frame.dim not in common and frame.full_size not in (None, frame.size):
            raise ValueError(
                f"plate '{frame.name}' is subsampled but not all sites of the model are inside it; "
                "a per-datum bound cannot scale it. Move every site into the plate, or do not "
                "subsample."
            )
    return {dim: stacks[-1][dim] for dim in common}


# The doubly reparametrised gradient


class _FreshValues(Messenger):
    """Makes every value of the guide a tensor of its own, which all that reads it goes through.

    A transform may remember what it made a value from; log q would then pass by the value.
    """

    def _pyro_sample(self, msg: Any) -> None:
        if msg["value"] is None and getattr(msg["fn"], "has_rsample", False):
            value = msg["fn"](*msg["args"], **msg["kwargs"])
            msg["value"] = value.view_as(value)


def _drop_score(guide_trace: Trace, frames: dict[int, Any], scale: float) -> None:
    """Take d log q / dphi at fixed z out of the guide's log-densities, whose values stay.

    :param frames: the common plates, by dimension; `scale`: of all sites.
    :raises ValueError: for a guide for which the gradient would be wrong.
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


def _random_sites(guide_trace: Trace) -> list[Any]:
    """Sites with a score. A Delta has none: it is a function of parameters and other sites."""
    drawn = [site for site in _sites(guide_trace) if not site["is_observed"]]
    return [site for site in drawn if not isinstance(_layers(site["fn"])[-1], dist.Delta)]


def _layers(fn: Any) -> list[Any]:
    """A distribution and what it wraps, outermost first."""
    layers = [fn]
    while hasattr(layers[-1], "base_dist"):
        layers.append(layers[-1].base_dist)
    return layers
