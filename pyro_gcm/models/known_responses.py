"""The responses by name."""

from __future__ import annotations

from pyro_gcm.models.axis_responses import WholeDistribution
from pyro_gcm.models.ordinal import Ordinal
from pyro_gcm.models.response import Response
from pyro_gcm.models.responses import Binary, Continuous, Quantile
from pyro_gcm.models.survival import Survival

RESPONSES: dict[str, type[Response]] = {
    "binary": Binary,
    "continuous": Continuous,
    "distribution": WholeDistribution,
    "ordinal": Ordinal,
    "quantile": Quantile,
    "survival": Survival,
}
