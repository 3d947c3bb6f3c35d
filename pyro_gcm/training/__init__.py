"""Mini-batch training in plain torch, shared by the models and the baselines."""

from pyro_gcm.training.options import Adam, AdamW, TrainingOptions
from pyro_gcm.training.result import Diverged, FitResult

__all__ = ["Adam", "AdamW", "Diverged", "FitResult", "TrainingOptions"]
