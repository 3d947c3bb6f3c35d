"""Order events, their exact cost posterior, and the cost families they are made of."""

from pyro_gcm.distributions.cost_posterior import CostPosterior
from pyro_gcm.distributions.deferred import Deferred as LazyDistribution
from pyro_gcm.distributions.families import CostFamily, cost_family, register_cost_family
from pyro_gcm.distributions.infinite_cost import InfiniteCost
from pyro_gcm.distributions.numerics import ndtri_exp, probit
from pyro_gcm.distributions.order_event import OrderEvent
from pyro_gcm.distributions.partly_known import PartlyKnown
from pyro_gcm.distributions.partly_observed_cost import ObservedCost, given_observed
from pyro_gcm.distributions.threshold_normal import ThresholdNormal
from pyro_gcm.distributions.threshold_quantile import ThresholdQuantile

__all__ = [
    "CostFamily",
    "CostPosterior",
    "InfiniteCost",
    "LazyDistribution",
    "ObservedCost",
    "OrderEvent",
    "PartlyKnown",
    "ThresholdNormal",
    "ThresholdQuantile",
    "cost_family",
    "given_observed",
    "ndtri_exp",
    "probit",
    "register_cost_family",
]
