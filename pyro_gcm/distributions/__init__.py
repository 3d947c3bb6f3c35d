"""Order events, their exact cost posterior, and the families of their costs."""

from pyro_gcm.distributions.base import LazyDistribution
from pyro_gcm.distributions.costs import CostUnits, InfiniteCost, shifted
from pyro_gcm.distributions.curve_outcome import AlongAxis, EventTime, OrderedLevel
from pyro_gcm.distributions.families import CostFamily, cost_family, register_cost_family
from pyro_gcm.distributions.joint import (
    LatentMixture,
    coordinates,
    is_independent_normal,
    linear_gaussian_posterior,
)
from pyro_gcm.distributions.numerics import ndtri_exp, probit
from pyro_gcm.distributions.order_event import GuessedEvent, OrderEvent, integrates_over
from pyro_gcm.distributions.posteriors import CostPosterior, RevenuePosterior
from pyro_gcm.distributions.threshold_normal import ThresholdNormal, ThresholdQuantile

__all__ = [
    "AlongAxis",
    "CostFamily",
    "CostPosterior",
    "CostUnits",
    "EventTime",
    "GuessedEvent",
    "InfiniteCost",
    "LatentMixture",
    "LazyDistribution",
    "OrderEvent",
    "OrderedLevel",
    "RevenuePosterior",
    "ThresholdNormal",
    "ThresholdQuantile",
    "coordinates",
    "cost_family",
    "integrates_over",
    "is_independent_normal",
    "linear_gaussian_posterior",
    "ndtri_exp",
    "probit",
    "register_cost_family",
    "shifted",
]
