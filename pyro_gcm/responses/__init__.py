"""Responses: what a model does with the order event."""

from pyro_gcm.responses.axis import AxisResponse, Ordinal, Survival
from pyro_gcm.responses.classes import Classes
from pyro_gcm.responses.competing import CompetingRisks
from pyro_gcm.responses.count import Count
from pyro_gcm.responses.guessed import Guessed
from pyro_gcm.responses.real import Continuous, Quantile, WholeDistribution
from pyro_gcm.responses.response import RESPONSES, Binary, Response
from pyro_gcm.responses.several import Several

__all__ = [
    "RESPONSES",
    "AxisResponse",
    "Binary",
    "Classes",
    "CompetingRisks",
    "Continuous",
    "Count",
    "Guessed",
    "Ordinal",
    "Quantile",
    "Response",
    "Several",
    "Survival",
    "WholeDistribution",
]
