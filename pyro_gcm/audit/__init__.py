"""A search for violations of monotonicity, and of concavity, in any predictor; proofs for trees."""

from pyro_gcm.audit.audit import audit_monotonicity
from pyro_gcm.audit.concavity import ConcavityAudit, audit_concavity
from pyro_gcm.audit.result import MonotonicityAudit, TreeProof, Witness
from pyro_gcm.audit.search import SEARCHES
from pyro_gcm.audit.table import audit_table, audit_table_concavity

__all__ = [
    "SEARCHES",
    "ConcavityAudit",
    "MonotonicityAudit",
    "TreeProof",
    "Witness",
    "audit_concavity",
    "audit_monotonicity",
    "audit_table",
    "audit_table_concavity",
]
