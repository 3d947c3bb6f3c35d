"""Models as pairs of a Pyro program and its guide."""

from pyro_gcm.models.gcm import GCM
from pyro_gcm.models.hierarchical import HierarchicalGCM
from pyro_gcm.models.igcm import IGCM
from pyro_gcm.models.members import MemberGCM

__all__ = ["GCM", "IGCM", "HierarchicalGCM", "MemberGCM"]
