"""The program and the guide that an objective trains, and the bounds that suit them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from pyro.infer import ELBO, RenyiELBO, Trace_ELBO, TraceEnum_ELBO, TraceMeanField_ELBO

from pyro_gcm._utils.torch_state import Randomness, evaluating
from pyro_gcm._utils.validation import one_of, positive_int
from pyro_gcm.inference.bounds import EnumeratedWeightedELBO, PaperLoss
from pyro_gcm.inference.elbo import ImportanceWeightedELBO, is_dreg
from pyro_gcm.inference.reading import Plan, Program, Reader, of
from pyro_gcm.inference.views import collapse, conditional, given_covariates
from pyro_gcm.prediction.predicted import Dry

ELBOS: dict[str, Callable[..., ELBO]] = {
    "iwae": ImportanceWeightedELBO,
    "dreg": partial(ImportanceWeightedELBO, gradient="dreg"),
    "elbo": Trace_ELBO,
    "mean_field": TraceMeanField_ELBO,
    "renyi": RenyiELBO,
    "enum": TraceEnum_ELBO,
}


class TrainingPair(NamedTuple):
    """The program and the guide of one objective, for `fit`, `pyro.infer.SVI` or any Pyro ELBO.

    :param sampled: sites that the guide draws.
    :param shared: those of them that it draws from the program's own distribution, so that their
        densities cancel.
    :param enumerated: sites with a finite support that the program sums out.
    :param averaged: those of them that the guide enumerates too, so that each of their values is
        trained on a likelihood of its own.
    :param loss: the only loss of the objective, or None where any ELBO will do.
    :param plan: how a reader of the story treats its sites.
    """

    program: Program
    guide: Program
    sampled: tuple[str, ...] = ("z",)
    shared: tuple[str, ...] = ()
    enumerated: tuple[str, ...] = ()
    averaged: tuple[str, ...] = ()
    loss: ELBO | None = None
    plan: Plan = Plan()

    def bound(self, elbo: str | ELBO | None, num_particles: int, default: str = "iwae") -> ELBO:
        """The bound that `elbo` names or is, checked against the sites of this pair.

        :param default: name that is used without `elbo`, unless a site is enumerated.
        :raises ValueError: for a bound that this pair cannot be trained with.
        """
        particles = positive_int("num_particles", num_particles)
        if self.loss is not None:
            if elbo is not None:
                raise ValueError("elbo must be left out: objective='paper' is a loss of its own")
            self.loss.num_particles = particles
            return self.loss
        # A z that is drawn has weights, beside which other finite sites are summed out.
        weighs = bool(self.enumerated and self.sampled) and "z" not in self.enumerated
        own = default if not self.enumerated or (weighs and default == "iwae") else "enum"
        name = own if elbo is None else elbo
        if isinstance(name, ELBO):
            bound = name
        else:
            one_of("elbo", name, list(ELBOS))
            if name == "renyi" and particles < 2:
                raise ValueError("num_particles must be at least 2 for elbo='renyi'")
            # There is one plate of rows: Pyro need not run the program once more to find that out.
            make = EnumeratedWeightedELBO if weighs and name == "iwae" else ELBOS[name]
            count = particles if self.sampled else 1
            bound = make(num_particles=count, max_plate_nesting=1, vectorize_particles=True)
        if self.enumerated and not isinstance(bound, TraceEnum_ELBO):
            raise ValueError(
                f"elbo={elbo!r} cannot differentiate through draws of a categorical z: use 'enum', "
                "which sums over it exactly"
            )
        if name == "enum" and not self.enumerated:
            raise ValueError(
                "elbo='enum' sums over a finite z, and this prior has none: use "
                "prior='categorical', or elbo='elbo'"
            )
        if is_dreg(bound) and self.shared:
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
    latents, guided = model.latents(plan), _guide_sites(model, plan)
    finite = tuple(name for name, site in latents.items() if site.values)
    sampled = tuple(name for name, site in latents.items() if not site.values)
    if plan.averages and (others := [name for name in finite if name != "z"]):
        raise ValueError(
            f"objective={objective!r} trains every value of z on its own, and site '{others[0]}' "
            "has to be summed out: use objective='conditional'"
        )
    if "r" in plan.given:
        program = conditional(story, kernel="k" if "k" in plan.left else None)
    else:
        program = given_covariates(story) if "x" in plan.given else collapse(story)
    return TrainingPair(
        program,
        partial(model.guide_of, plan),
        sampled,
        shared=tuple(name for name in sampled if guided.get(name, True)),
        enumerated=finite,
        averaged=finite if plan.averages else (),
        loss=PaperLoss() if objective == "paper" else None,
        plan=plan,
    )


def _guide_sites(model: Any, plan: Plan) -> dict[str, bool]:
    """The latent sites of the guide's story, and whether each has the story's distribution.

    :raises ValueError: for a site that declares it, but has another one.
    """
    like: Any = {"device": model.device, "dtype": model.dtype}
    with torch.no_grad(), Randomness(0, model.device).in_use(), evaluating(model):
        x, r = torch.randn(3, model.x_dim, **like), torch.rand(3, model.r_dim, **like)
        x = model.x_standardizer.inverse(x).to(x)
        width = model.response.outcome_width
        y = torch.ones((3,) if width == 1 else (3, width), **like)
        guided = _Guided(model, plan, x, r)
        model.guide_story(guided.guided, x, r, y)
        told = Dry(model, plan, x, r)
        told.shared = model.shared(told.share)
        model.story(told, x, r, None)
        for name, q in guided.values.items():
            value = None if q is None else q.sample()
            if value is not None and not torch.equal(
                q.log_prob(value), told.told[name].log_prob(value)
            ):
                raise ValueError(
                    f"site '{name}' has another distribution in the story than in guide_story, "
                    "which draws it with own=True: override guide_story, or leave it out there"
                )
    return {name: q is not None for name, q in guided.values.items()}


class _Guided(Reader):
    """Draws the sites of a guide's story; notes the distribution where it is the story's own."""

    def guide(self, name: str, q: Any, own: bool) -> Any:
        q = of(q)
        self.values[name] = q if own else None
        return q.sample()
