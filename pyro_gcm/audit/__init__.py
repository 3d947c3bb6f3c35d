"""A search for violations of monotonicity in any predictor."""

from pyro_gcm.audit.audit import audit_monotonicity
from pyro_gcm.audit.result import MonotonicityAudit, Witness
from pyro_gcm.audit.search import SEARCHES
from pyro_gcm.audit.table import audit_table

__all__ = ["SEARCHES", "MonotonicityAudit", "Witness", "audit_monotonicity", "audit_table"]
