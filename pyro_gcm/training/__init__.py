"""Mini-batch training in plain torch, shared by the models and the baselines."""

from pyro_gcm.training.batches import TrainingRows, rows_in_memory, selected
from pyro_gcm.training.checkpoint import described
from pyro_gcm.training.finite_steps import Diverged
from pyro_gcm.training.options import FitSettings, TrainingDefaults, TrainingOptions, gathered
from pyro_gcm.training.result import FitResult
from pyro_gcm.training.trainer import Trainer
from pyro_gcm.training.updates import Adam, AdamW
from pyro_gcm.training.workers import WorkerLost, workers_of

__all__ = [
    "Adam",
    "AdamW",
    "Diverged",
    "FitResult",
    "FitSettings",
    "Trainer",
    "TrainingDefaults",
    "TrainingOptions",
    "TrainingRows",
    "WorkerLost",
    "described",
    "gathered",
    "rows_in_memory",
    "selected",
    "workers_of",
]
