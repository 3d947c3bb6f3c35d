"""Models and options of `fit`, for every objective, bound and kind of guide, and quick ones."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import zoo
from pyro.infer import TraceEnum_ELBO
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import Independent

from pyro_gcm import GCM, IGCM
from pyro_gcm.inference import ImportanceWeightedELBO
from pyro_gcm.inference.scored import Scored
from pyro_gcm.models import MemberGCM


class Rows(NamedTuple):
    """x, r and y of a data set."""

    x: Tensor
    r: Tensor
    y: Tensor


#: Options of `fit` for a training run of a tenth of a second.
QUICK = {"epochs": 3, "batch_size": 64, "num_particles": 8, "progress": False}


MEMBERS = {"members": 3}
CASES: dict[str, tuple[type[Any], dict[str, Any], dict[str, Any]]] = {
    "prior guide": (GCM, {}, {}),
    "one draw": (GCM, {}, {"num_particles": 1}),
    "amortised guide": (GCM, {"guide": "amortised"}, {"elbo": "elbo"}),
    "posterior guide": (GCM, {"guide": "posterior_full"}, {}),
    "laplace": (GCM, {"prior": "laplace"}, {}),
    "dreg": (GCM, {"guide": "posterior"}, {"elbo": "dreg"}),
    "mean field": (GCM, {"guide": "amortised"}, {"elbo": "mean_field"}),
    "mean field, no closed form": (GCM, {"guide": "posterior_flow"}, {"elbo": "mean_field"}),
    "alpha": (GCM, {}, {"elbo": ImportanceWeightedELBO(4, 0.5, max_plate_nesting=1)}),
    "renyi": (GCM, {"guide": "amortised"}, {"elbo": "renyi"}),
    "alternatives": (GCM, {"alternatives": 2, "guide": "posterior"}, {}),
    "alternatives, p0": (GCM, {"alternatives": 2, "p0": "conditional"}, {}),
    "continuous": (GCM, {"response": "continuous", "revenue_map": "piecewise_linear"}, {}),
    "quantile": (GCM, {"response": "quantile"}, {}),
    "categorical": (GCM, {"prior": "categorical"}, {}),
    "common factor": (zoo.Factor, {"cost_family": "logistic"}, {}),
    "modes of costs": (zoo.Modes, {}, {}),
    "modes, one draw": (zoo.Modes, {"guide": "posterior"}, {"elbo": "enum"}),
    "members": (MemberGCM, MEMBERS, {"objective": "members"}),
    "members, evidence": (MemberGCM, MEMBERS, {"objective": "conditional"}),
    "joint": (GCM, {"prior": "standard"}, {"objective": "joint"}),
    "joint, mean field": (GCM, {"prior": "standard"}, {"objective": "joint", "elbo": "mean_field"}),
    "implicit": (IGCM, {}, {}),
    "implicit, guide of k": (IGCM, {"kernel_guide": zoo.posterior_of_kernel}, {}),
    "implicit, one kernel": (IGCM, {"k_dim": 1}, {}),
    "implicit, joint": (IGCM, {"prior": "standard"}, {"objective": "joint", "elbo": "elbo"}),
    "implicit, paper": (IGCM, {"kernel_guide": "amortised"}, {"objective": "paper"}),
    "implicit, paper, one kernel": (
        IGCM,
        {"kernel_guide": "amortised", "k_dim": 1, "guide": "amortised"},
        {"objective": "paper"},
    ),
    "implicit, categorical": (IGCM, {"prior": "categorical"}, {}),
}


def case_of(name: str, count: int = 48) -> tuple[Any, Rows, dict[str, Any]]:
    """A model in float64, rows for it, and the options of `fit`."""
    kind, options, training = CASES[name]
    rows = zoo.rows(options.get("response", "binary"), count, seed=3)
    return zoo.make(kind, **options), Rows(*rows[:3]), training


def loss_and_gradient(model: Any, loss: Tensor) -> tuple[Tensor, Tensor]:
    """A loss, and its gradient in all parameters that it depends on."""
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return loss.detach(), torch.cat([g.flatten() for g in found if g is not None])


class OfSites:
    """The same draws in both readings, whatever else they draw: of a seed for each site in turn."""

    def __init__(self) -> None:
        self.drawn = 0

    def draw(self, q: Any, shape: tuple[int, ...]) -> Tensor:
        self.drawn += 1
        with torch.random.fork_rng():
            torch.manual_seed(self.drawn)
            if isinstance(q, Independent) and q.batch_shape == shape[1:]:
                return q.rsample(shape[:1])
            return q.expand(shape).rsample()


class DrivenStory(Scored):
    """Draws the sites of a story from a noise."""

    def __init__(self, noise: Any, *args: Any) -> None:
        super().__init__(*args)
        self.noise = noise

    def draw(self, name: str, q: Any) -> Tensor:
        own = q.batch_shape if len(q.batch_shape) > 1 else ()  # it depends on other draws
        return self.noise.draw(q, tuple(torch.broadcast_shapes(own, self.shape)))


class EnumeratedWeightedELBO(TraceEnum_ELBO):
    """Importance weights of the guide's sites, sum_m p(y, m, z_n) / q(z_n) over finite sites m."""

    def differentiable_loss(self, model: Any, guide: Any, *args: Any) -> Tensor:
        ((trace, of_guide),) = self._get_traces(model, guide, args, {})
        log_p, log_q = (
            sum(node["log_prob"] for node in one.nodes.values() if node["type"] == "sample")
            for one in (trace, of_guide)
        )
        values = tuple(range(-log_p.dim(), -int(self.max_plate_nesting)))
        log_w = torch.logsumexp(log_p - log_q, values)
        log_w = log_w.reshape(-1, log_w.shape[-1])
        return (math.log(len(log_w)) - torch.logsumexp(log_w, 0)).sum()


class DrivenSites(Messenger):
    """Draws the sites of a guide from a noise, inside Pyro."""

    def __init__(self, noise: Any, bound: Any) -> None:
        super().__init__()
        self.noise, self.particles = noise, bound.num_particles
        self.plates = bound.max_plate_nesting - (self.particles > 1)

    def _pyro_sample(self, msg: Any) -> None:
        q = msg["fn"]
        if msg["value"] is not None or not getattr(q, "has_rsample", False):
            return
        if self.particles > 1 and len(q.batch_shape) > self.plates:  # it depends on other draws
            msg["value"] = self.noise.draw(q, tuple(q.batch_shape))
        else:
            value = self.noise.draw(q, (self.particles, *q.batch_shape))
            unused = (1,) * (self.plates - len(q.batch_shape))
            msg["value"] = value.unflatten(0, (-1, *unused)) if self.particles > 1 else value[0]
