"""Order events, their exact cost posterior, and the families of their costs."""

from pyro_gcm.distributions.costs import CostUnits, InfiniteCost, LatentMixture, shifted
from pyro_gcm.distributions.curve_outcome import AlongAxis, EventTime, OrderedLevel
from pyro_gcm.distributions.event_count import EventCount
from pyro_gcm.distributions.families import cost_family, register_cost_family
from pyro_gcm.distributions.order_event import GuessedEvent, OrderEvent
from pyro_gcm.distributions.posteriors import CostPosterior, RevenuePosterior, coordinates
from pyro_gcm.distributions.race import MinimumGumbel, RacedClass
from pyro_gcm.distributions.threshold_normal import ThresholdNormal, ThresholdQuantile

__all__ = [
    "AlongAxis",
    "CostPosterior",
    "CostUnits",
    "EventCount",
    "EventTime",
    "GuessedEvent",
    "InfiniteCost",
    "LatentMixture",
    "MinimumGumbel",
    "OrderEvent",
    "OrderedLevel",
    "RacedClass",
    "RevenuePosterior",
    "ThresholdNormal",
    "ThresholdQuantile",
    "coordinates",
    "cost_family",
    "register_cost_family",
    "shifted",
]
