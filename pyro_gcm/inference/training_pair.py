"""The program and the guide that an objective trains, and the bounds that suit them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import pyro
import pyro.poutine as poutine
import torch
from pyro.infer import ELBO, RenyiELBO, Trace_ELBO, TraceEnum_ELBO, TraceMeanField_ELBO
from torch import Tensor

from pyro_gcm._utils.validation import one_of, positive_int
from pyro_gcm.inference.elbo import ImportanceWeightedELBO
from pyro_gcm.inference.programs import unannounced
from pyro_gcm.inference.reading import Plan, Program
from pyro_gcm.inference.scored import PaperLoss
from pyro_gcm.inference.views import ScaleSites, collapse, given_inputs
from pyro_gcm.prediction.predicted import Dry

ELBOS: dict[str, Callable[..., ELBO]] = {
    "iwae": ImportanceWeightedELBO,
    "dreg": partial(ImportanceWeightedELBO, gradient="dreg"),
    "elbo": partial(Trace_ELBO, vectorize_particles=True),
    "mean_field": partial(TraceMeanField_ELBO, vectorize_particles=True),
    "renyi": partial(RenyiELBO, vectorize_particles=True),
    "enum": partial(TraceEnum_ELBO, vectorize_particles=True),
}


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
            if elbo == "renyi" and particles < 2:
                raise ValueError("num_particles must be at least 2 for elbo='renyi'")
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
    read = Dry(model, plan, guided=True)
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
    guide = partial(model.guide_of, plan)
    return TrainingPair(program, guide, sampled, shared, finite, loss, plan)


class PyroLoss:
    """The loss that an ELBO object of Pyro computes of the program and the guide of a pair.

    :param rows: of the whole data set.
    :param weighted: whether the last column of a batch is a factor on the loss of each row.
    :raises ValueError: for an ELBO whose rows cannot have weights.
    """

    #: Bounds that are linear in the log-densities of a row, which `poutine.scale` multiplies.
    LINEAR = (Trace_ELBO, TraceMeanField_ELBO)

    def __init__(
        self, model: Any, pair: TrainingPair, bound: Any, rows: int, weighted: bool
    ) -> None:
        if weighted and type(bound) not in self.LINEAR and not hasattr(bound, "row_losses"):
            raise ValueError(
                f"elbo={type(bound).__name__} cannot be used with sample_weight, since the share "
                "of a row in its loss is not known: use one of the names of elbo, or give it a "
                "method row_losses(program, guide, *data) that returns the losses of the rows, [B]"
            )
        self.model, self.sides, self.bound = model, pair[:2], bound
        self.rows, self.weighted, self.is_checked = rows, weighted, False
        #: What the programs announce to Pyro's store.
        self.announced: Any = {"params": {}, "constraints": {}}

    def __call__(self, batch: list[Tensor]) -> Tensor:
        """The loss, summed over the rows; Pyro validates the first one."""
        # RenyiELBO looks for parameters in the trace, and has no loss to differentiate.
        known = self.weighted or hasattr(self.bound, "differentiable_loss")
        return self._evaluated(batch, "differentiable_loss" if known else "loss_and_grads")

    def score(self, batch: list[Tensor]) -> Tensor:
        """The loss of held-out rows."""
        self.is_checked = True
        return self._evaluated(batch, "differentiable_loss" if self.weighted else "loss")

    def _evaluated(self, batch: list[Tensor], method: str) -> Tensor:
        """What a method of the bound returns; nothing of it is left in Pyro afterwards."""
        sides: Any = self.sides
        bound, weights = self.bound, None
        if self.weighted:
            *batch, weights = batch
            if type(bound) in self.LINEAR:
                sides = tuple(poutine.scale(side, scale=weights) for side in sides)
        with (
            ScaleSites(len(batch[0]) / self.rows, self.model.shared_sites()),
            pyro.validation_enabled(not self.is_checked),
            pyro.get_param_store().scope(self.announced),
            nullcontext() if method == "loss_and_grads" else unannounced(),
        ):
            self.is_checked = True
            if weights is not None and type(bound) not in self.LINEAR:
                return (weights * bound.row_losses(*sides, *batch)).sum()
            return torch.as_tensor(getattr(bound, method)(*sides, *batch))
