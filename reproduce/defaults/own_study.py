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
from pathlib import Path
from pkgutil import resolve_name

import pandas as pd
import torch
from torch import Tensor

from pyro_gcm import data
from reproduce import tasks
from reproduce.defaults.untouched import held_out
from reproduce.methods import DEFAULTS, Rows, version_of
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Refused, Scores, Settings, add_run_arguments, positive_count
from reproduce.study import Study

TASKS = tasks.TITLES


class _Outside:
    """A model from outside, whose predictions may be an array."""

    def __init__(self, name: str, rows: Rows, seed: int) -> None:
        self.model = resolve_name(name)(rows, seed)

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """The predictions, [B], float64."""
        return torch.as_tensor(self.model.predict(x, r)).detach().double().reshape(len(x))


def load(name: str) -> data.Dataset:
    """A data set of the report, or one from outside."""
    if name in TASKS:
        return tasks.load(name, "default")
    dataset: data.Dataset = resolve_name(name)()
    return dataset


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    own = None if fit.method in DEFAULTS else lambda rows: _Outside(fit.method, rows, fit.seed)
    return held_out(load(fit.dataset), fit, device, own)


def version(method: str) -> Settings:
    """What decides what a method is: a version, or the source of the file from outside."""
    if method in DEFAULTS:
        return version_of(method)
    source = Path(str(inspect.getsourcefile(resolve_name(method)))).read_bytes()
    return {"source": hashlib.sha256(source).hexdigest()[:12]}


def report(table: pd.DataFrame) -> str:
    """Means of every metric on every data set, the best in bold."""
    parts = {str(name): rows for name, rows in table.groupby("dataset", sort=False)}
    shown = (f"{TASKS.get(n, n)}\n\n{compared(parts[n], family=False)}" for n in parts)
    return "\n\n".join(shown)


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
    arguments.datasets = [*arguments.tasks, *map(str, arguments.task)]
    arguments.methods = [*arguments.method, *arguments.methods]
    if not arguments.datasets:
        raise Refused(f"--tasks needs one of {', '.join(TASKS)}, or --task module:function")
    try:
        for name in [*arguments.task, *arguments.method]:
            resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise Refused(f"{name} cannot be imported: {error}") from error
    methods = dict.fromkeys(arguments.methods)
    study = Study(
        "study",
        str(__doc__),
        arguments.datasets,
        methods,
        run,
        report,
        version=version,
        quick={"rows": 400},
    )
    study.main(arguments)
