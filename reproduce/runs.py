"""Fits run in parallel, their scores kept in one tidy CSV file that is whole at every moment."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyro
import sklearn
import torch
from filelock import FileLock, Timeout
from tqdm.auto import tqdm

import pyro_gcm
from pyro_gcm._utils.files import told_of, write_file
from pyro_gcm.cli.output import one_line
from pyro_gcm.training import Diverged


class Refused(ValueError):
    """What a user has to change before a command can run; told without a traceback."""


def positive_count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text}")
    return int(text)


RESULTS = Path(__file__).parent / "results"


def versions(device: str = "cpu") -> str:
    """What the numbers depend on besides the command and the seed, boosting libraries apart."""
    return (
        f"python {platform.python_version()}; torch {torch.__version__}; pyro {pyro.__version__}; "
        f"numpy {np.__version__}; scikit-learn {sklearn.__version__}; "
        f"pyro_gcm {pyro_gcm.__version__}{_commit()}; {device}"
    )


@cache
def _commit() -> str:
    """The commit of the code, and whether code was changed since; empty where there is no git."""
    options: Any = {"cwd": Path(__file__).parents[1], "text": True, "stderr": subprocess.DEVNULL}
    git, paths = partial(subprocess.check_output, **options), ["pyro_gcm", "reproduce/*.py"]
    try:
        commit = git(["git", "rev-parse", "--short=10", "HEAD"])
        changes = git(["git", "status", "--porcelain", "--untracked-files=no", *paths])
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" {commit.strip()}{' with changes' if changes else ''}"


def read_json(module: str, name: str) -> Any:
    """A JSON file that lies beside a module, of which `__file__` is given."""
    return json.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table so that an interruption leaves the old file or the new one."""
    write_file(path, table.to_csv(index=False, float_format="%.6g").encode())


Settings = dict[str, Any]
#: What a fit leaves behind: metric -> value, and, where they are not those of the call and 0, the
#: keys "seconds" and "epochs".
Scores = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Fit:
    """What identifies one fit; `settings` is everything else it depends on, as JSON."""

    experiment: str
    dataset: str
    variant: str
    protocol: str
    split: str
    seed: int
    method: str
    settings: str

    @property
    def options(self) -> Settings:
        """The settings as a dictionary."""
        options: Settings = json.loads(self.settings)
        return options


def nan_if_diverged(
    metrics: Callable[[Fit], Iterable[str]],
) -> Callable[[Callable[..., Scores]], Callable[..., Scores]]:
    """Decorates the function of a fit, whose metrics are NaN where its training diverges."""

    def decorated(run: Callable[..., Scores]) -> Callable[..., Scores]:
        @wraps(run)
        def scores(fit: Fit, device: str = "cpu") -> Scores:
            try:
                return run(fit, device)
            except Diverged:
                return dict.fromkeys(metrics(fit), math.nan)

        return scores

    return decorated


KEY = [field.name for field in dataclasses.fields(Fit)]
COLUMNS = [*KEY, "metric", "value", "seconds", "epochs", "device", "versions"]


def as_json(settings: Settings) -> str:
    """Settings as they stand in a table."""
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))


def read_results(path: Path) -> pd.DataFrame:
    """A table of results, empty if there is none yet."""
    if not path.exists():
        return pd.DataFrame(columns=COLUMNS)
    kinds = {"variant": str, "split": str, "settings": str}
    try:
        table = pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values={"value": [""]})
    except ValueError as error:  # of pandas, of many types
        raise Refused(f"{path} is no table of results: {one_line(error)}") from error
    if list(table.columns) != COLUMNS:
        raise Refused(f"{path} has columns {list(table.columns)}, expected {COLUMNS}")
    return table


def run_fits(
    path: Path,
    fits: Sequence[Fit],
    run: Callable[..., Any],
    arguments: argparse.Namespace,
    together: Callable[[Fit], Any] | None = None,
) -> pd.DataFrame:
    """Run the fits that the table lacks, and return the rows of all that were asked for.

    The table is written anew, atomically, after every fit: what is finished is not run again.

    :param run: a fit, and device=, to its scores.
    :param together: what is the same of fits that one call of `run` takes, which is given a list of
        them then, and returns a list of scores.

    :raises Refused: if another process is writing to the same table.
    :raises OSError: if the table cannot be written, of which a lock tells before any work.
    """
    fits, device = list(dict.fromkeys(fits)), arguments.device
    with _locked(path):
        rows: list[dict[Any, Any]] = read_results(path).to_dict("records")
        if arguments.again:
            asked = {dataclasses.astuple(fit) for fit in fits}
            rows = [row for row in rows if tuple(row[name] for name in KEY) not in asked]
        there = {tuple(row[name] for name in KEY) for row in rows if row["device"] == device}
        groups: dict[Any, list[Fit]] = {}
        for fit in fits:
            if dataclasses.astuple(fit) not in there:
                groups.setdefault(fit if together is None else together(fit), []).append(fit)
        missing = sum(map(len, groups.values()))
        if missing < len(fits):
            print(f"{path.name}: {len(fits) - missing} of {len(fits)} fits are there already")
        calls = [
            joblib.delayed(_run)(run, each, device, together is not None)
            for each in groups.values()
        ]
        bar = tqdm(total=len(fits), initial=len(fits) - missing, desc=path.stem, unit="fit")
        with bar:
            as_they_come = joblib.Parallel(arguments.jobs, return_as="generator_unordered")
            for finished in as_they_come(calls):
                rows.extend(row for lines in finished for row in lines)
                write_csv(pd.DataFrame(rows, columns=COLUMNS).sort_values(KEY, kind="stable"), path)
                bar.update(len(finished))
    table = read_results(path)
    wanted = pd.DataFrame([dataclasses.asdict(fit) for fit in fits], columns=KEY)
    return wanted.merge(table[table["device"] == device], on=KEY, validate="one_to_many")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Inside, no other process writes the table."""
    lock = FileLock(path.with_suffix(".lock"), timeout=0)
    with told_of(path):  # before any work
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            held = lock.acquire()
        except Timeout as error:
            raise Refused(f"another run is writing to {path}") from error
    with held:
        yield


def _run(
    run: Callable[..., Any], group: list[Fit], device: str, whole: bool
) -> list[list[dict[str, Any]]]:
    """The lines of each fit in the table."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    scored = run(group, device=device) if whole else [run(fit, device=device) for fit in group]
    lines = []
    each = (time.perf_counter() - start) / len(group)
    for fit, scores in zip(group, map(dict, scored), strict=True):
        seconds, epochs = round(scores.pop("seconds", each), 3), int(scores.pop("epochs", 0))
        shared = {"seconds": seconds, "epochs": epochs, "device": device}
        shared |= {**dataclasses.asdict(fit), "versions": versions(device)}
        lines.append([{"metric": name, "value": value, **shared} for name, value in scores.items()])
    return lines


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that every experiment has."""
    jobs = dict[str, Any](type=positive_count, default=joblib.cpu_count())
    parser.add_argument("--jobs", **jobs, help="processes, one a core")
    parser.add_argument("--device", default="cpu", help="of torch, cpu or cuda")
    parser.add_argument("--again", action="store_true", help="run what is there already, too")
    parser.add_argument("--quick", action="store_true", help="every fit, at a size of seconds")
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """The folder of the results."""
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder of results")
