"""Models and options of `fit`, for every objective, bound and kind of guide, and quick ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import zoo
from torch import Tensor

from pyro_gcm.inference import ImportanceWeightedELBO
from pyro_gcm.inference.scored import Scored


class Rows(NamedTuple):
    """x, r and y of a data set."""

    x: Tensor
    r: Tensor
    y: Tensor


#: Options of `fit` for a training run of a tenth of a second.
QUICK = {"epochs": 3, "batch_size": 64, "num_particles": 8, "progress": False}


#: A kind of the zoo and options of `fit`, for every objective, bound and way to draw or sum sites.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "prior guide": ("plain", {}),
    "amortised guide": ("laplace prior", {"elbo": "elbo"}),
    "dreg": ("posterior guide", {"elbo": "dreg"}),
    "mean field": ("full posterior guide", {"elbo": "mean_field"}),
    "alpha": ("plain", {"elbo": ImportanceWeightedELBO(4, 0.5, max_plate_nesting=1)}),
    "renyi": ("laplace prior", {"elbo": "renyi"}),
    "alternatives, p0": ("conditional p0", {}),
    "splines": ("splines and logistic costs", {}),
    "continuous": ("continuous", {}),
    "quantile": ("quantile", {}),
    "categorical": ("categorical prior", {}),
    "members": ("members", {"objective": "members"}),
    "members, evidence": ("members", {"objective": "conditional"}),
    "joint": ("joint", {"objective": "joint"}),
    "joint, mean field": ("joint", {"objective": "joint", "elbo": "mean_field"}),
    "implicit": ("implicit", {}),
    "implicit, one kernel": ("implicit, one kernel", {}),
    "implicit, joint": ("implicit, joint", {"objective": "joint", "elbo": "elbo"}),
    "implicit, paper": ("implicit, paper", {"objective": "paper"}),
    "implicit, categorical": ("implicit, categorical", {}),
}


def case_of(name: str, count: int = 48) -> tuple[Any, Rows, dict[str, Any]]:
    """A model in float64, rows for it, and the options of `fit`."""
    kind, training = CASES[name]
    return zoo.build(kind), Rows(*zoo.rows_of(kind, count, seed=3)[:3]), training


def loss_and_gradient(model: Any, loss: Tensor) -> tuple[Tensor, Tensor]:
    """A loss, and its gradient in all parameters that it depends on."""
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return loss.detach(), torch.cat([g.flatten() for g in found if g is not None])


class DrivenStory(Scored):
    """Draws the sites of a story from a noise."""

    def __init__(self, noise: Any, *args: Any) -> None:
        super().__init__(*args)
        self.noise = noise

    def draw(self, name: str, q: Any) -> Tensor:
        own = q.batch_shape if len(q.batch_shape) > 1 else ()  # it depends on other draws
        return self.noise.draw(q, tuple(torch.broadcast_shapes(own, self.shape)))
