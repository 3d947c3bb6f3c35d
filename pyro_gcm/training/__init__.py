"""Mini-batch training in plain torch, shared by the models and the baselines."""

from pyro_gcm.training.batches import RowsInMemory, selected
from pyro_gcm.training.loop import Training
from pyro_gcm.training.options import Adam, AdamW, TrainingDefaults, TrainingOptions
from pyro_gcm.training.result import Diverged, FitResult

__all__ = [
    "Adam",
    "AdamW",
    "Diverged",
    "FitResult",
    "RowsInMemory",
    "Training",
    "TrainingDefaults",
    "TrainingOptions",
    "selected",
]
