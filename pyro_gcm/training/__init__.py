"""Mini-batch training in plain torch, shared by the models and the baselines."""

from pyro_gcm.training.options import TrainingOptions
from pyro_gcm.training.trainer import Diverged, FitResult, Trainer, described

__all__ = ["Diverged", "FitResult", "Trainer", "TrainingOptions", "described"]
