"""What each objective of IGCM trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyro.poutine as poutine

from pyro_gcm.inference.collapse import collapse, conditional, given_covariates
from pyro_gcm.inference.paper_loss import PaperLoss
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.nets import StandardNormal

if TYPE_CHECKING:
    from pyro_gcm.models.igcm import IGCM


def implicit_pair(model: IGCM, objective: str) -> TrainingPair:
    """The program and the guide of one of `IGCM.objectives`.

    :raises ValueError: where the objective has no meaning for this model.
    """
    if objective == "conditional":
        return _conditional(model)
    if objective == "joint":
        return _joint(model)
    program, shared = given_covariates(model.model), _shared(model)
    if objective == "response_revenue":
        return TrainingPair(program, model.guide, shared, model.enumerates)
    if model.enumerates:
        raise ValueError("objective='paper' averages over draws of z: not with a categorical z")
    if model.k_guide is None or getattr(model.k_guide, "reads_outcome", False):
        raise ValueError(
            "objective='paper' needs a q(k|x, r) of its own, which predictions use as well: "
            "pass kernel_guide='amortised'"
        )
    return TrainingPair(program, model.guide, shared, loss=PaperLoss())


def _shared(model: IGCM) -> tuple[str, ...]:
    return () if model.z_guide is not None or model.enumerates else ("z",)


def _conditional(model: IGCM) -> TrainingPair:
    if not model.exact_kernel:
        raise ValueError(
            "objective='conditional' draws k from p(k|x, r), which is known for a normal "
            "kernel_prior with independent coordinates: use 'response_revenue'"
        )
    shared, exact = _shared(model), model.k_guide is None
    if exact and model.integrates_kernel:
        program = conditional(model.model, kernel="k")
        guide = poutine.block(model.guide, hide=["k"])
        return TrainingPair(program, guide, shared, model.enumerates, sampled=not model.enumerates)
    shared = (*shared, "k") if exact else shared
    return TrainingPair(conditional(model.model), model.guide, shared, model.enumerates)


def _joint(model: IGCM) -> TrainingPair:
    if model.reads_x:
        raise ValueError(
            "objective='joint' needs prior='standard': with p(z|x), p(z|x) p(x|z, k) is not a "
            "density of x, and maximising it means nothing"
        )
    if not isinstance(model.k_prior, StandardNormal):
        raise ValueError(
            "objective='joint' needs kernel_prior='standard': with p(k|x), p(k|x) p(x|z, k) is "
            "not a density of x, and maximising it means nothing"
        )
    return TrainingPair(collapse(model.model), model.guide, (), model.enumerates)
