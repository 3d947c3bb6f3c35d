"""Small networks that return distributions, increasing maps of the revenues, standardisation."""

from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm.nets.latent import (
    ConditionalCategorical,
    ConditionalFlow,
    ConditionalMixture,
    ConditionalMultivariateNormal,
    DiagNormalMixture,
    StandardNormal,
)
from pyro_gcm.nets.members import MemberEncoder
from pyro_gcm.nets.networks import (
    AmortizedGuide,
    Conditional,
    Linear,
    PosteriorGuide,
    RevenueGuide,
)
from pyro_gcm.nets.revenue_maps import (
    AxisMap,
    Bijection,
    PiecewiseLinear,
    PositiveLinear,
    Probit,
    Sigmoid,
)
from pyro_gcm.nets.tabular_features import TabularFeatures

__all__ = [
    "AmortizedGuide",
    "AxisMap",
    "Bijection",
    "Conditional",
    "ConditionalCategorical",
    "ConditionalFlow",
    "ConditionalMixture",
    "ConditionalMultivariateNormal",
    "DiagNormalMixture",
    "Linear",
    "MemberEncoder",
    "PiecewiseLinear",
    "PositiveLinear",
    "PosteriorGuide",
    "Probit",
    "RevenueGuide",
    "Sigmoid",
    "StandardNormal",
    "Standardizer",
    "TabularFeatures",
]
