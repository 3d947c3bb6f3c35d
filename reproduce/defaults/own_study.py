"""A method or a data set of your own beside all others, each with its defaults, on random splits.

`--method my_module:my_method` names a function (rows, seed) -> model, or a class that is made so:
rows have x [n, d], r [n, m], y [n] and response ("binary" or "continuous"), and the model has
predict(x, r) -> [B], Pr(y = 1) or the mean. `--task my_module:my_task` names a function () ->
`pyro_gcm.data.Dataset`. Both are imported from where the command runs.
"""

from __future__ import annotations

import argparse
from pkgutil import resolve_name

import pandas as pd

from reproduce.defaults import untouched
from reproduce.methods import DEFAULTS, version_of
from reproduce.rendering.tables import compared
from reproduce.runs import Refused, add_run_arguments, positive_count
from reproduce.study import Study
from reproduce.tasks import TITLES


def report(table: pd.DataFrame) -> str:
    """Means of every metric on every data set, the best in bold."""
    parts = {str(name): rows for name, rows in table.groupby("dataset", sort=False)}
    shown = (f"{TITLES.get(n, n)}\n\n{compared(parts[n], family=False)}" for n in parts)
    return "\n\n".join(shown)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce study`."""
    parser.add_argument("--method", nargs="+", default=[], help="module:function of your own")
    parser.add_argument("--methods", nargs="*", choices=list(DEFAULTS), default=list(DEFAULTS))
    parser.add_argument("--task", nargs="+", default=[], help="module:function of a data set")
    parser.add_argument("--tasks", nargs="*", choices=list(TITLES), default=[])
    parser.add_argument("--splits", type=positive_count, default=10)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the fits that the table lacks, and print it.

    :raises Refused: if what was named is not there, before any fit.
    """
    arguments.datasets = [*arguments.tasks, *map(str, arguments.task)]
    arguments.methods = [*arguments.method, *arguments.methods]
    if not arguments.datasets:
        raise Refused(f"--tasks needs one of {', '.join(TITLES)}, or --task module:function")
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
        untouched.run,
        report,
        version=version_of,
        quick={"rows": 400},
    )
    study.main(arguments)
