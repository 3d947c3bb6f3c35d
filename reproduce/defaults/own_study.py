"""A method or a data set of your own beside all others, each with its defaults, on random splits.

`--method my_module:my_method` names a function (rows, seed) -> model, or a class that is made so:
rows have x [n, d], r [n, m], y [n] and response ("binary" or "continuous"), and the model has
predict(x, r) -> [B], Pr(y = 1) or the mean. `--task my_module:my_task` names a function () ->
`pyro_gcm.data.Dataset`. Both are imported from where the command runs.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_gcm import data
from reproduce import tasks
from reproduce.arguments import Refused, positive_count
from reproduce.data import untouched_data
from reproduce.defaults.untouched import held_out
from reproduce.methods import Predictor, Rows
from reproduce.methods.defaults import DEFAULTS, Default, version_of
from reproduce.rendering.tables import every_metric
from reproduce.runs import Fit, Scores, Settings, add_run_arguments
from reproduce.study import Study, each

#: Rows of --quick.
QUICK_ROWS = 400
TASKS = {name: task.title for name, task in tasks.TASKS.items()} | {
    name: entry.title for name, entry in untouched_data.UNTOUCHED.items()
}


@cache
def imported(name: str) -> Callable[..., Any]:
    """What "module:attribute" names.

    :raises Refused: if it cannot be imported or called.
    """
    module, colon, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise Refused(f"{name} cannot be imported: {error}") from error
    if not callable(found):
        raise Refused(f"{name} must be module:function, or module:class")
    function: Callable[..., Any] = found
    return function


class Checked:
    """A model from outside, whose predictions have to be one finite number a row."""

    def __init__(self, name: str, model: Any) -> None:
        self._name, self._model = name, model
        if not hasattr(model, "predict"):
            raise Refused(f"{name} must return a model with predict(x, r), got {type(model)}")

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """The predictions, [B], float64."""
        with torch.no_grad():
            values = torch.as_tensor(self._model.predict(x, r)).double()
        if values.shape != x.shape[:1] or not values.isfinite().all():
            wanted = f"finite, of shape [{len(x)}]"
            raise Refused(f"{self._name} must predict {wanted}, got shape {list(values.shape)}")
        return values


def _fit(name: str, rows: Rows, seed: int, device: str) -> tuple[Predictor, int]:
    return Checked(name, imported(name)(rows, seed)), 0


def _method(name: str) -> Default:
    return DEFAULTS[name] if name in DEFAULTS else Default(partial(_fit, name), "")


def load(name: str) -> data.Dataset:
    """A data set of the report, or one from outside."""
    if name in tasks.TASKS:
        return tasks.load(name, "default")
    dataset = untouched_data.load(name) if name in TASKS else imported(name)()
    if not isinstance(dataset, data.Dataset):
        raise Refused(f"{name} must return a pyro_gcm.data.Dataset, got {type(dataset)}")
    return dataset


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    dataset, limit = load(fit.dataset), fit.options.get("rows")
    if limit:
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))
        dataset = dataset.subset(order[:limit])
    return held_out(_method(fit.method), dataset, fit, device)


def settings(method: str) -> Settings:
    """What decides what a method is: a version, or the source of the file from outside."""
    if method in DEFAULTS:
        return version_of(method)
    source = Path(str(inspect.getsourcefile(imported(method)))).read_bytes()
    return {"source": hashlib.sha256(source).hexdigest()[:12]}


def report(table: pd.DataFrame, name: str) -> str:
    """Means of every metric on a data set, the best in bold."""
    return every_metric(table[table["dataset"] == name])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce study`."""
    parser.add_argument("--method", nargs="+", default=[], help="module:function of your own")
    parser.add_argument("--methods", nargs="*", choices=list(DEFAULTS), default=list(DEFAULTS))
    parser.add_argument("--task", nargs="+", default=[], help="module:function of a data set")
    parser.add_argument("--tasks", nargs="*", choices=list(TASKS), default=[])
    parser.add_argument("--splits", type=positive_count, default=10)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the fits that the table lacks, and print it.

    :raises Refused: if what was named is not there, before any fit.
    """
    arguments.datasets = [*arguments.tasks, *arguments.task]
    arguments.methods = [*arguments.method, *arguments.methods]
    if not arguments.datasets:
        raise Refused(f"--tasks needs one of {', '.join(TASKS)}, or --task module:function")
    for name in [*arguments.task, *arguments.method]:
        imported(name)
    titles = {name: TASKS.get(name, name) for name in arguments.datasets}
    methods = dict.fromkeys(arguments.methods)
    study = Study(
        *("study", str(__doc__), titles, methods, run, each(titles, report)),
        settings=settings,
        quick={"rows": QUICK_ROWS},
    )
    study.main(arguments)
