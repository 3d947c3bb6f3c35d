"""Mini-batch training in plain torch, shared by the models and the baselines."""

from pyro_gcm.training.adam import Adam, AdamW
from pyro_gcm.training.batches import selected
from pyro_gcm.training.finite import Diverged
from pyro_gcm.training.options import TrainingDefaults, TrainingOptions
from pyro_gcm.training.trainer import FitResult, Trainer, described

__all__ = [
    "Adam",
    "AdamW",
    "Diverged",
    "FitResult",
    "Trainer",
    "TrainingDefaults",
    "TrainingOptions",
    "described",
    "selected",
]
