"""The table of tasks: each data set, its metric and how long a method trains on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pandas as pd

from pyro_gcm import data
from reproduce.runs import Settings

PAPER = Path(__file__).parent / "paper"


@dataclass(frozen=True)
class Task:
    """A data set of the paper's Table 2, or the stand-in for one.

    :param title: its name in the paper's tables; a stand-in has none there.
    :param metric: what the paper reports (section 4.2); RMSE is better where lower.
    :param epochs: of the held-out protocol; `batch_size` as well.
    """

    title: str
    metric: str
    epochs: int
    batch_size: int
    stand_in: bool = False


#: Name for `pyro_gcm.data.load` -> task, in the order of the paper.
TASKS = {
    "adult": Task("Adult", "AUC", 15, 512),
    "compas": Task("COMPAS", "accuracy", 30, 256),
    "diabetes": Task("Diabetes", "AUC", 8, 1024),
    "blog": Task("Blog Feedback", "RMSE", 20, 512),
    "loan_psds": Task("Loan (stand-in)", "accuracy", 15, 512, stand_in=True),
    "auto_mpg": Task("Auto MPG", "RMSE", 60, 32),
}

#: The paper's names of metrics.
PAPER_METRICS = {"AUC": "AUC", "accuracy": "ACC", "RMSE": "RMSE"}


@lru_cache(maxsize=2)
def load(name: str, variant: str) -> data.Dataset:
    """A data set, read once for several fits of a process."""
    return data.load(name, variant)


def with_covariates(dataset: data.Dataset, form: str) -> data.Dataset:
    """The data set with x as it is ("raw"), or as sign(x) log(1 + |x|) ("signed log").

    :raises ValueError: for another form.
    """
    if form not in ("raw", "signed log"):
        raise ValueError(f"covariates must be 'raw' or 'signed log', got {form!r}")
    if form == "raw":
        return dataset
    return replace(dataset, x=dataset.x.sign() * dataset.x.abs().log1p())


def paper_hyperparameters(name: str) -> Settings:
    """Table 5 of the paper, as settings of `reproduce.methods.train`."""
    table = pd.read_csv(PAPER / "hyperparameters.csv").set_index("dataset")
    row = table.loc["Loan Defaulter" if TASKS[name].stand_in else TASKS[name].title].to_dict()
    return {
        "hidden": int(row["hidden_dim"]),
        "num_particles": int(row["sample_number"]),
        "z_dim": int(row["latent_dim"]),
        "epochs": int(row["max_epoch"]),
        "optimizer": str(row["optimizer"]).lower(),
        "batch_size": int(row["batch_size"]),
        "learning_rate": float(row["learning_rate"]),
    }
