"""Mini-batch training in plain torch, shared by the models and the baselines."""

from pyro_gcm.training.batches import TrainingRows, rows_in_memory, selected
from pyro_gcm.training.finite import Diverged
from pyro_gcm.training.identity import described
from pyro_gcm.training.options import TrainingDefaults, TrainingOptions
from pyro_gcm.training.result import FitResult
from pyro_gcm.training.trainer import Trainer
from pyro_gcm.training.updates import Adam, AdamW
from pyro_gcm.training.workers import WorkerLost, workers_of

__all__ = [
    "Adam",
    "AdamW",
    "Diverged",
    "FitResult",
    "Trainer",
    "TrainingDefaults",
    "TrainingOptions",
    "TrainingRows",
    "WorkerLost",
    "described",
    "rows_in_memory",
    "selected",
    "workers_of",
]
