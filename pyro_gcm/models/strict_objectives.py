"""What each objective of GCM trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyro_gcm.inference.collapse import collapse, conditional
from pyro_gcm.inference.training_pair import TrainingPair

if TYPE_CHECKING:
    from pyro_gcm.models.gcm import GCM


def strict_pair(model: GCM, objective: str) -> TrainingPair:
    """The program and the guide of one of `GCM.objectives`.

    :raises ValueError: where the objective has no meaning for this model.
    """
    if objective == "conditional":
        program, enumerated = conditional(model.model), model.enumerates
        shared = ("z",) if model.z_guide is None and not enumerated else ()
        return TrainingPair(program, model.guide, shared, enumerated, sampled=not enumerated)
    if model.reads_x:
        raise ValueError(
            "objective='joint' needs prior='standard': with p(z|x), p(z|x) p(x|z) is not a "
            "density of x, and maximising it means nothing"
        )
    if model.response.revenue() is not None:
        raise ValueError(
            "objective='joint' needs revenues that are observed; the levels of "
            "response='quantile' are chosen, and the pinball loss is no density of the data"
        )
    return TrainingPair(collapse(model.model), model.joint_guide, missing=True)
