"""Small data sets, rows of results that were never run, and options of a command."""

import argparse
import os
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch

from pyro_gcm import data
from reproduce import tasks, timing
from reproduce.data import datasets
from reproduce.released import rows as released_rows
from reproduce.runs import COLUMNS

REAL = pytest.mark.skipif(not os.environ.get("PYRO_GCM_DATA"), reason="PYRO_GCM_DATA is not set")
#: Every step multiplies the weights by 1e19.
DIVERGING = {"optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 1e20}


def row(**values: Any) -> dict[str, Any]:
    """One row; what is not given is a held-out AUC of GCM on Adult."""
    shared = {
        "experiment": "public", "dataset": "adult", "variant": "default", "protocol": "held-out",
        "split": "0", "seed": 0, "method": "GCM", "settings": '{"hidden": 32}', "metric": "AUC",
        "value": 0.8, "seconds": 1.0, "epochs": 1, "device": "cpu", "versions": "python 3.11; cpu",
    }  # fmt: skip
    return shared | values


def table(cells: dict[tuple[str, str], Any], **more: Any) -> pd.DataFrame:
    """Rows of `(method, metric) -> values`, one a seed and split."""
    rows = [
        row(**{"split": str(at), **more}, method=method, metric=metric, seed=at, value=value)
        for (method, metric), values in cells.items()
        for at, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def toy(
    name: str = "toy", variant: str = "default", response: str = "continuous",
    x_dim: int = 9, r_dim: int = 4, rows: int = 100, fixed: bool = False,
) -> data.Dataset:  # fmt: skip
    """A data set; the first column of x is the row number, and y depends on the second."""
    g = torch.Generator().manual_seed(0)
    x, r = (torch.randn(rows, size, generator=g).double() for size in (x_dim, r_dim))
    x[:, 0] = torch.arange(rows)
    y = x[:, 1] + r.sum(1) + torch.randn(rows, generator=g)
    return data.Dataset(
        name=name,
        variant=variant,
        x=x,
        r=r,
        y=(y > 0).double() if response == "binary" else y,
        x_names=tuple(f"x{i}" for i in range(x_dim)),
        r_names=tuple(f"r{i}" for i in range(r_dim)),
        response=response,
        metric="accuracy" if response == "binary" else "rmse",
        fixed=(torch.arange(rows - 30), torch.arange(rows - 30, rows)) if fixed else None,
    )


def load_as(monkeypatch: pytest.MonkeyPatch, make: Callable[[str, str], data.Dataset]) -> None:
    """Data sets of the experiments come from a function (name, variant) -> data set."""
    for module in (tasks, datasets, timing, released_rows):
        monkeypatch.setattr(module, "load", make)
    released_rows.rows_of.cache_clear()


def options(module: Any, tmp_path: Any, *more: str) -> argparse.Namespace:
    """What the command of an experiment is called with."""
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(["--output", str(tmp_path), *more])
