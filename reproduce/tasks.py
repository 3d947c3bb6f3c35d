"""The table of tasks: each data set, its metric and how long a method trains on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name

import pandas as pd

from pyro_gcm import data
from reproduce.data.untouched_data import UNTOUCHED
from reproduce.runs import Settings

PAPER = Path(__file__).parent / "paper"


@dataclass(frozen=True)
class Task:
    """A data set of the experiments.

    :param title: its name in the report.
    :param metric: what the paper reports (section 4.2); RMSE is better where lower.
    :param paper: its name in the paper's tables.
    :param stand_in: it takes the place of the data set `paper`; its scores are never compared with
        the paper's.
    """

    title: str
    metric: str
    paper: str
    stand_in: bool = False

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value of the metric is better."""
        return self.metric == "RMSE"


#: Name for `pyro_gcm.data.load` -> task, in the order of the paper.
TASKS = {
    "adult": Task("Adult", "AUC", "Adult"),
    "compas": Task("COMPAS", "accuracy", "COMPAS"),
    "diabetes": Task("Diabetes", "AUC", "Diabetes"),
    "blog": Task("Blog Feedback", "RMSE", "Blog Feedback"),
    "loan_psds": Task("Loan (stand-in)", "accuracy", "Loan Defaulter", stand_in=True),
    "auto_mpg": Task("Auto MPG", "RMSE", "Auto MPG"),
}

#: Name -> title of these and of the untouched data sets.
TITLES = {name: task.title for name, task in TASKS.items()} | {
    name: entry.title for name, entry in UNTOUCHED.items()
}


@lru_cache(maxsize=2)
def load(name: str, variant: str) -> data.Dataset:
    """A data set, or that of "module:function", read once for several fits of a process."""
    if name in TASKS:
        return data.load(name, variant)
    if name in UNTOUCHED:
        return UNTOUCHED[name].read(name)
    dataset: data.Dataset = resolve_name(name)()
    return dataset


def own_metric(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of results with the metric that the paper reports for their data set."""
    metric = table["dataset"].map(lambda name: TASKS[name].metric if name in TASKS else "")
    return table[table["metric"] == metric]


def paper_hyperparameters(name: str) -> Settings:
    """Table 5 of the paper, as settings of `reproduce.methods.train`."""
    row = _table_5().loc[TASKS[name].paper].to_dict()
    return {
        "hidden": int(row["hidden_dim"]),
        "num_particles": int(row["sample_number"]),
        "z_dim": int(row["latent_dim"]),
        "epochs": int(row["max_epoch"]),
        "optimizer": str(row["optimizer"]).lower(),
        "batch_size": int(row["batch_size"]),
        "learning_rate": float(row["learning_rate"]),
    }


@lru_cache(maxsize=1)
def _table_5() -> pd.DataFrame:
    return pd.read_csv(PAPER / "hyperparameters.csv").set_index("dataset")
