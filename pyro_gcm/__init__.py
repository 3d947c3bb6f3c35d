"""Monotone probabilities as order events between a revenue and a latent cost, in Pyro."""

from pyro_gcm import data, distributions, inference
from pyro_gcm.inference import FitResult, fit
from pyro_gcm.models import GCM, IGCM, compare_assumptions

__version__ = "0.1.0"
__all__ = [
    "GCM",
    "IGCM",
    "FitResult",
    "compare_assumptions",
    "data",
    "distributions",
    "fit",
    "inference",
]
