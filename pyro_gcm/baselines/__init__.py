"""Other methods for the same task, in plain torch: each a module of (x, r) with a loss."""

from pyro_gcm.baselines.mlp import MLP

__all__ = ["MLP"]
