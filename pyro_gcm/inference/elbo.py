"""What is minimised: the importance-weighted bound, and the programs and bounds of an objective."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import pyro.distributions as dist
import pyro.poutine as poutine
import torch
from pyro.infer import ELBO, RenyiELBO, Trace_ELBO, TraceEnum_ELBO, TraceMeanField_ELBO
from pyro.infer.enum import get_importance_trace
from pyro.poutine import Trace
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes, number, one_of, positive_int
from pyro_gcm.inference.reading import Plan, Program
from pyro_gcm.inference.views import collapse, given_inputs
from pyro_gcm.prediction.predicted import SiteReader

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
        reparametrised one (Tucker et al. 2019, equation (8)): the same mean, and for a guide near
        the posterior a far smaller standard deviation of the guide's gradient. With w~ the
        normalised weights of the particles of a datum and phi the parameters of the guide, it is

            sum_n w~_n^2 d log w_n / dz_n dz_n / dphi

        in the place of w~_n d log w_n / dz_n dz_n / dphi and the score. It is for a separate guide:
        where the guide is the prior it raises the standard deviation, 2 to 3 times as measured.
    :param max_plate_nesting: nesting of the program's plates; guessed by a run when left out. The
        particles are one more plate.
    :raises ValueError: for alpha = 1, no particles, an unknown gradient, "dreg" with an alpha other
        than 0 or a guide with a scale or a mask of its own, or a subsampled plate that is not
        common to all sites (its scale has no place in a per-datum bound).
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
            drawn = poutine.trace(guide).get_trace(*args, **kwargs)
            sites: Any = [*drawn.nodes.items()]
            for name, site in sites:
                if site["type"] == "sample" and isinstance(_layers(site["fn"])[-1], dist.Delta):
                    drawn.remove_node(name)  # a function of parameters and of other sites
                elif site["type"] == "sample" and getattr(site["fn"], "has_rsample", False):
                    site["infer"] = {**site["infer"], "path": site["value"]}
                    site["value"] = site["value"].detach().requires_grad_()
            guide = poutine.replay(guide, trace=drawn)
        return get_importance_trace("flat", self.max_plate_nesting, model, guide, args, kwargs)

    def differentiable_loss(
        self, model: Program, guide: Program, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Minus the bounds of all data, as a tensor to differentiate.

        :raises ValueError: if a site of the guide cannot be reparametrised.
        """
        ((model_trace, guide_trace),) = self._get_traces(model, guide, args, kwargs)
        for site in _sites_of(guide_trace):
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

        def log_density(trace: Trace) -> Tensor:
            """Of every particle and datum, [N, B]; [N] if the sites share no plate."""
            total = torch.zeros(())
            for site in _sites_of(trace):
                log_p = site["log_prob"] / scale
                other = [d for d in range(-log_p.dim(), 0) if d not in sizes]
                total = total + (log_p.sum(other, keepdim=True) if other else log_p)
            # All other dimensions have been summed and have size 1 by now.
            total = total.expand(broadcast_shapes(total.shape, layout)).reshape([*sizes.values()])
            return total if several else total[None]

        log_p, log_q = log_density(model_trace), log_density(guide_trace)
        drawn = [site for site in _sites_of(guide_trace) if "path" in site["infer"]]
        if not drawn:
            return -scale * importance_weighted(log_p - log_q, self.alpha).sum()
        for site in drawn:
            masked = any(isinstance(fn, dist.MaskedDistribution) for fn in _layers(site["fn"]))
            scaled = isinstance(site["scale"], Tensor) or site["scale"] != scale
            if scaled or masked or site["mask"] is not None:
                raise ValueError(
                    f"gradient='dreg': site '{site['name']}' of the guide has a scale or a mask of "
                    "its own; use gradient='iwae'"
                )
        weights = (log_p - log_q).detach().softmax(0)
        total = (weights.square() * (log_p - log_q)).sum()
        values = [site["value"] for site in drawn]
        slopes = torch.autograd.grad(total, values, retain_graph=True, allow_unused=True)
        along: Any = sum(
            (slope * site["infer"]["path"]).sum()
            for slope, site in zip(slopes, drawn, strict=True)
            if slope is not None
        )
        bounds = importance_weighted(log_p - log_q.detach())
        return -scale * (bounds.sum() + along - along.detach())

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


def _sites_of(trace: Trace) -> list[Any]:
    """The sites of a trace that have a distribution."""
    return [site for site in trace.nodes.values() if site["type"] == "sample"]


def _layers(fn: Any) -> list[Any]:
    """A distribution and what it wraps, outermost first."""
    layers = [fn]
    while hasattr(layers[-1], "base_dist"):
        layers.append(layers[-1].base_dist)
    return layers


def _common_scale(model_trace: Trace, guide_trace: Trace, frames: dict[int, Any]) -> float:
    """The factor of all sites: that of the common plates, and of a `poutine.scale` around both."""
    sites = [*_sites_of(model_trace), *_sites_of(guide_trace)]
    scales = [site["scale"] for site in sites]
    if all(isinstance(scale, float | int) and scale == scales[0] for scale in scales):
        return float(scales[0])
    return math.prod((f.full_size or f.size) / f.size for f in frames.values())


def _common_frames(model_trace: Trace) -> dict[int, Any]:
    """Vectorised plates that all sites of the model share, by dimension, without the particles'."""
    stacks = [
        {f.dim: f for f in stack if f.vectorized and f.name != "num_particles_vectorized"}
        for stack in (site["cond_indep_stack"] for site in _sites_of(model_trace))
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


class PaperLoss:
    """Objective "paper" of `IGCM` (section 3.4), from draws z_n ~ q(z|x) and k_m ~ q(k|x, r).

        L = - log 1/N sum_n E_k[Pr(y | z_n, k)] p(z_n) / q(z_n|x)
            - log 1/M sum_m p(r | k_m, x)
            + KL[q(k|x, r) || p(k)]

    Not a bound on log p(y, r | x): it takes the logarithm of two averages where the evidence has
    that of one, and adds a divergence that belongs to a bound without the second logarithm. E_k is
    in closed form where there is one (`integrates_over`), otherwise each z_n has a draw of k of its
    own. N = M = num_particles.

    :param num_particles: number of draws of z and of k.
    """

    def __init__(self, num_particles: int) -> None:
        self.num_particles = num_particles


ELBOS: dict[str, Callable[..., ELBO]] = {
    "iwae": ImportanceWeightedELBO,
    "dreg": partial(ImportanceWeightedELBO, gradient="dreg"),
    "elbo": partial(Trace_ELBO, vectorize_particles=True),
    "mean_field": partial(TraceMeanField_ELBO, vectorize_particles=True),
    "renyi": partial(RenyiELBO, vectorize_particles=True),
    "enum": partial(TraceEnum_ELBO, vectorize_particles=True),
}


#: The same for type checkers, and the objectives of models.
ElboName = Literal["iwae", "dreg", "elbo", "mean_field", "renyi", "enum"]
ObjectiveName = Literal["conditional", "joint", "paper", "members"]


class TrainingPair(NamedTuple):
    """The program and the guide of one objective, for `fit`, `pyro.infer.SVI` or any Pyro ELBO.

    :param sampled: sites that the guide draws.
    :param shared: those of them that it draws from the program's own distribution, so that their
        densities cancel.
    :param enumerated: sites with a finite support that the program sums out.
    :param loss: what makes the only loss of the objective, or None where any ELBO will do.
    :param plan: how a reader of the story treats its sites.
    """

    program: Program
    guide: Program
    sampled: tuple[str, ...] = ("z",)
    shared: tuple[str, ...] = ()
    enumerated: tuple[str, ...] = ()
    loss: type[PaperLoss] | None = None
    plan: Plan = Plan()

    def bound(self, elbo: str | ELBO | None, num_particles: int, default: str = "iwae") -> Any:
        """The bound that `elbo` names or is, checked against the sites of this pair.

        :param default: name that is used without `elbo`, unless a site is enumerated.
        :raises ValueError: for a bound that this pair cannot be trained with.
        """
        particles = positive_int("num_particles", num_particles)
        if self.loss is not None:
            if elbo is not None:
                raise ValueError("elbo must be left out: objective='paper' is a loss of its own")
            return self.loss(particles)
        # A z that is drawn has weights, beside which other finite sites are summed out.
        weighs = bool(self.enumerated and self.sampled) and "z" not in self.enumerated
        if elbo is None:
            elbo = default if not self.enumerated or (weighs and default == "iwae") else "enum"
        bound: Any = elbo
        if not isinstance(elbo, ELBO):
            one_of("elbo", elbo, list(ELBOS))
            # There is one plate of rows: Pyro need not run the program once more to find that out.
            count = particles if self.sampled else 1
            bound = ELBOS[elbo](num_particles=count, max_plate_nesting=1)
        sums_out = isinstance(bound, TraceEnum_ELBO) or (weighs and elbo == "iwae")
        if self.enumerated and not sums_out:
            raise ValueError(
                f"elbo={elbo!r} cannot differentiate through draws of a categorical z: use 'enum', "
                "which sums over it exactly"
            )
        if elbo == "enum" and not self.enumerated:
            raise ValueError(
                "elbo='enum' sums over a finite z, and this prior has none: use "
                "prior='categorical', or elbo='elbo'"
            )
        if getattr(bound, "gradient", "") == "dreg" and self.shared:
            raise ValueError(
                f"elbo='dreg' needs a guide of its own for {', '.join(self.shared)}: where the "
                "guide is the program's own distribution it only adds noise to the gradient; use "
                "'iwae', or a guide such as 'posterior'"
            )
        return bound


def training_pair(model: Any, objective: str) -> TrainingPair:
    """The program and the guide of an objective, and what is known of their sites."""
    model.shared_sites()  # whose guide has parameters
    plan, story = model.plan(objective), model.model
    read = SiteReader(model, plan, guided=True)
    finite = tuple(name for name, site in read.latents.items() if site.values)
    sampled = tuple(name for name, site in read.latents.items() if not site.values)
    if plan.averages and (others := [name for name in finite if name != "z"]):
        raise ValueError(
            f"objective={objective!r} trains every value of z on its own, and site '{others[0]}' "
            "has to be summed out: use objective='conditional'"
        )
    given = given_inputs(story, plan.given)
    program = collapse(given, kernel="k" if "k" in plan.left else None)
    shared = tuple(name for name in sampled if name not in read.in_guide)
    loss = PaperLoss if objective == "paper" else None
    guide = partial(model.guide, plan=plan)
    return TrainingPair(program, guide, sampled, shared, finite, loss, plan)
