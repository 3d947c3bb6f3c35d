"""A search for violations of monotonicity in any predictor of (x, r)."""

from pyro_gcm.audit.audit import SEARCHES, audit_monotonicity, default_tolerance
from pyro_gcm.audit.predictors import ADAPTERS
from pyro_gcm.audit.result import MonotonicityAudit, Witness

__all__ = [
    "ADAPTERS",
    "SEARCHES",
    "MonotonicityAudit",
    "Witness",
    "audit_monotonicity",
    "default_tolerance",
]
