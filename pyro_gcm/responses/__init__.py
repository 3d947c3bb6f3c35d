"""Responses: what a model does with the order event. A file each; a new one is found by itself."""

import importlib
import pkgutil

from pyro_gcm.responses.axis import AxisResponse, WholeDistribution
from pyro_gcm.responses.ordinal import Ordinal
from pyro_gcm.responses.real import Binary, Continuous, Guessed, Quantile
from pyro_gcm.responses.response import RESPONSES, Response
from pyro_gcm.responses.several import Several
from pyro_gcm.responses.survival import Survival

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

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
