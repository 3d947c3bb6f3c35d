"""Models as pairs of a Pyro program and its guide."""

from pyro_gcm.models.gcm import GCM

__all__ = ["GCM"]
