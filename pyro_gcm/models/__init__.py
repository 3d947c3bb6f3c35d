"""Models as pairs of a Pyro program and its guide."""

from pyro_gcm.models.compare_assumptions import AssumptionComparison, compare_assumptions
from pyro_gcm.models.gcm import GCM
from pyro_gcm.models.igcm import IGCM
from pyro_gcm.models.posterior import PosteriorDraws
from pyro_gcm.models.render import render_model

__all__ = [
    "GCM",
    "IGCM",
    "AssumptionComparison",
    "PosteriorDraws",
    "compare_assumptions",
    "render_model",
]
