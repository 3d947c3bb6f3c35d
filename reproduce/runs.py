"""Fits run in parallel, their scores kept in one tidy CSV file that is whole at every moment."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch
from filelock import FileLock, Timeout
from joblib import Parallel, delayed
from tqdm.auto import tqdm

from pyro_gcm._utils.files import told_of
from pyro_gcm.cli.errors import one_line
from reproduce.arguments import Refused, a_path, positive_count, torch_device
from reproduce.results import cores, versions, write_csv

Settings = dict[str, Any]
#: What a fit leaves behind: metric -> value, and the keys "seconds" and "epochs".
Scores = dict[str, float]
#: Fits of one call, their scores, and what they ran with.
Finished = tuple[list["Fit"], list[Scores], str]


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
    lock = FileLock(path.with_suffix(".lock"), timeout=0)
    with told_of(path):  # before any work
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout as error:
            raise Refused(f"another run is writing to {path}") from error
    try:
        return _run_fits(path, fits, run, arguments, together)
    finally:
        lock.release()


def _run_fits(
    path: Path,
    fits: Sequence[Fit],
    run: Callable[..., Any],
    arguments: argparse.Namespace,
    together: Callable[[Fit], Any] | None,
) -> pd.DataFrame:
    fits = list(dict.fromkeys(fits))
    rows: list[dict[Any, Any]] = read_results(path).to_dict("records")
    device = arguments.device
    if arguments.again:
        asked = {dataclasses.astuple(fit) for fit in fits}
        rows = [row for row in rows if tuple(row[name] for name in KEY) not in asked]
    there = {tuple(row[name] for name in KEY) for row in rows if row["device"] == device}
    missing = [fit for fit in fits if dataclasses.astuple(fit) not in there]
    if len(missing) < len(fits):
        print(f"{path.name}: {len(fits) - len(missing)} of {len(fits)} fits are there already")
    with _backend(arguments):
        calls = [
            delayed(_run)(run, group, device, together is not None)
            for group in _groups(missing, together)
        ]
        progress = tqdm(
            total=len(fits), initial=len(fits) - len(missing), desc=path.stem, unit="fit"
        )
        for group, found, ran_with in _finished(calls, arguments):
            for fit, scores in zip(group, found, strict=True):
                rows.extend(_rows(fit, scores, device, ran_with))
            write_csv(pd.DataFrame(rows, columns=COLUMNS).sort_values(KEY, kind="stable"), path)
            progress.update(len(group))
        progress.close()
    table = read_results(path)
    table = table[table["device"] == device]
    wanted = pd.DataFrame([dataclasses.asdict(fit) for fit in fits], columns=KEY)
    return wanted.merge(table, on=KEY, how="left", validate="one_to_many")


def _groups(fits: list[Fit], together: Callable[[Fit], Any] | None) -> list[list[Fit]]:
    """Fits that one call takes, in the order of their first ones."""
    groups: dict[Any, list[Fit]] = {}
    for fit in fits:
        groups.setdefault(fit if together is None else together(fit), []).append(fit)
    return list(groups.values())


def _run(run: Callable[..., Any], group: list[Fit], device: str, whole: bool) -> Finished:
    torch.set_num_threads(1)
    found = run(group, device=device) if whole else [run(fit, device=device) for fit in group]
    return group, found, versions(device)


def _rows(fit: Fit, scores: Scores, device: str, ran_with: str) -> list[dict[str, Any]]:
    """The lines of a fit in the table."""
    scores = dict(scores)
    shared = {
        "seconds": round(scores.pop("seconds"), 3),
        "epochs": int(scores.pop("epochs")),
        "device": device,
        "versions": ran_with,
    }
    known = dataclasses.asdict(fit)
    return [
        {**known, "metric": metric, "value": value, **shared} for metric, value in scores.items()
    ]


def _finished(calls: list[Any], arguments: argparse.Namespace) -> Iterator[Finished]:
    """Results as they come."""
    if arguments.backend != "ray":
        yield from Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(calls)
        return
    # Ray's backend hands results over all at once: as many calls at a time as there are jobs.
    for first in range(0, len(calls), arguments.jobs):
        yield from Parallel(n_jobs=arguments.jobs)(calls[first : first + arguments.jobs])


@contextmanager
def _backend(arguments: argparse.Namespace) -> Iterator[None]:
    """joblib's backend for as long as the fits run."""
    if arguments.backend == "ray":
        try:
            from ray.util.joblib import register_ray
        except ImportError as error:
            raise Refused("--backend ray needs Ray: pip install ray") from error
        register_ray()
    if arguments.backend == "dask":
        try:
            from distributed import Client
        except ImportError as error:
            raise Refused("--backend dask needs Dask: pip install distributed") from error
        local = {"n_workers": arguments.jobs, "threads_per_worker": 1, "dashboard_address": None}
        # joblib finds the client that is open.
        client = Client(arguments.scheduler) if arguments.scheduler else Client(**local)
        with client, joblib.parallel_config("dask"):
            yield
        return
    with joblib.parallel_config(arguments.backend):
        yield


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that every experiment has."""
    parser.add_argument(
        "--jobs", type=positive_count, default=cores(), help="processes, one a core"
    )
    parser.add_argument(
        "--backend", choices=["loky", "dask", "ray"], default="loky", help="of joblib"
    )
    parser.add_argument("--scheduler", help="address of a Dask scheduler; a local one by default")
    parser.add_argument(
        "--device", type=torch_device, default="cpu", help="device of torch, cpu or cuda"
    )
    parser.add_argument("--again", action="store_true", help="run what is there already, too")
    parser.add_argument("--quick", action="store_true", help="every fit, at a size of seconds")
    parser.add_argument(
        "--output", type=a_path, default=Path("results"), help="folder of the results"
    )
