"""A search for violations of monotonicity in any predictor of (x, r)."""

from pyro_gcm.audit.audit import SEARCHES, audit_monotonicity, default_tolerance
from pyro_gcm.audit.predictors import ADAPTERS
from pyro_gcm.audit.result import MonotonicityAudit, Witness
from pyro_gcm.audit.table import audit_table

__all__ = [
    "ADAPTERS",
    "SEARCHES",
    "MonotonicityAudit",
    "Witness",
    "audit_monotonicity",
    "audit_table",
    "default_tolerance",
]
