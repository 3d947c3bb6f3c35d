"""Responses: what a model does with the order event."""

from pyro_gcm.responses.axis import AxisResponse, WholeDistribution
from pyro_gcm.responses.real import Continuous, Guessed, Quantile
from pyro_gcm.responses.response import RESPONSES, Binary, Response
from pyro_gcm.responses.several import Several
from pyro_gcm.responses.survival import Ordinal, Survival

__all__ = [
    "RESPONSES",
    "AxisResponse",
    "Binary",
    "Continuous",
    "Guessed",
    "Ordinal",
    "Quantile",
    "Response",
    "Several",
    "Survival",
    "WholeDistribution",
]
