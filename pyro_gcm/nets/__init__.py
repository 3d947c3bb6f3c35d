"""Small networks that return distributions, revenue maps and standardisation."""

from pyro_gcm.nets.conditional import Conditional
from pyro_gcm.nets.latent import AmortizedGuide, StandardNormal
from pyro_gcm.nets.revenue_maps import Identity, PositiveLinear, Probit
from pyro_gcm.nets.standardizer import Standardizer

__all__ = [
    "AmortizedGuide",
    "Conditional",
    "Identity",
    "PositiveLinear",
    "Probit",
    "StandardNormal",
    "Standardizer",
]
