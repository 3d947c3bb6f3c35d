"""Random work in one process for an hour: no memory grows, nothing leaks, no number changes.

Fits of all kinds, with and without a checkpoint that a later action goes on from, predictions,
posteriors, saves, loads, audits, estimators, threads, and SIGINT in the midst of them. After every
action: every result equal to the first of its kind, bit by bit, and what torch and Pyro keep once
for the process as it was.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import torch
from torch import Tensor

import pyro_gcm
from pyro_gcm._utils import evaluating
from pyro_gcm._utils.process_state import exclusively
from reproduce.arguments import a_path
from reproduce.kinds import KINDS, rows, trained
from reproduce.results import versions, write_csv

#: Minutes after which memory is not to grow any more.
WARM = 10.0


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    return bool(np.array_equal(a, b))


class Work:
    """Actions that return numbers, which are the same every time."""

    def __init__(self, folder: Path, kinds: list[str]) -> None:
        self.folder, self.numbers = folder, itertools.count()
        self.models = {name: trained(name) for name in kinds}
        x, r, y = rows("binary")
        self.table = pd.DataFrame(torch.cat([x, r], 1).numpy(), columns=[*"abcde"])
        self.labels = y.numpy() > 0
        self.estimator = self._estimator()

    def _estimator(self) -> Any:
        directions = {"d": 1, "e": 1}
        made = pyro_gcm.estimators.GCMClassifier(monotonic_cst=directions, epochs=2)
        return made.fit(self.table, self.labels)

    def actions(self) -> dict[str, Callable[[], Any]]:
        """By name; the name says what they are done to."""
        made: dict[str, Callable[[], Any]] = {}
        for name, model in self.models.items():
            for what, action in self._of_model(name, model).items():
                made[f"{what} {name}"] = action
        table = self.table
        return {
            **made,
            "estimator fit": lambda: self._estimator().predict_proba(table),
            "estimator predict": lambda: self.estimator.predict_proba(table),
            "estimator save": lambda: self._loaded(self.estimator).predict_proba(table),
        }

    def _of_model(self, name: str, model: Any) -> dict[str, Callable[[], Any]]:
        x, r, y = rows(KINDS[name].response)
        few = x[:20], r[:20], y[:20]
        options: Any = {"progress": False}
        made: dict[str, Callable[[], Any]] = {
            "fit": lambda: dict(trained(name).state_dict()),
            "resume": lambda: self._resumed(name),
            "predict": lambda: model.predict(x, r),
            "save": lambda: self._loaded(model).predict(x, r),
        }
        if KINDS[name].response == "binary":
            made |= {
                "surface": lambda: model.surface(few[0], few[1]),
                "log_prob": lambda: model.log_prob(x, r, y),
                "posterior": lambda: dict(model.posterior(*few, num_samples=50, **options)),
                "audit": lambda: self._falls(model, x, r),
            }
        return made

    def _falls(self, model: Any, x: Tensor, r: Tensor) -> Any:
        audit = pyro_gcm.audit_monotonicity(model, x[:50], r[:50], pairs=500, progress=False)
        return np.array(audit.violations)

    def _loaded(self, model: Any) -> Any:
        folder = self.folder / f"saved {next(self.numbers)}"
        pyro_gcm.save(model, folder)
        try:
            return pyro_gcm.load(folder)
        finally:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()

    def _resumed(self, name: str) -> dict[str, Tensor]:
        """A fit that goes on from the checkpoint of the one that was interrupted before it."""
        path = self.folder / f"{name} {threading.get_ident()}.checkpoint"
        return dict(trained(name, checkpoint=path).state_dict())


class Interrupts:
    """SIGINT at random times while an action runs in the main thread."""

    def __init__(self, draw: random.Random) -> None:
        self.armed, self.count, self._draw, self._stop = False, 0, draw, threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._raise)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        signal.signal(signal.SIGINT, self._before)

    def _raise(self, *_: object) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def _send(self) -> None:
        while not self._stop.wait(self._draw.expovariate(10.0)):
            os.kill(os.getpid(), signal.SIGINT)

    def during(self, action: Callable[[], Any]) -> Any:
        """What an action returns, or None if it was interrupted."""
        try:
            try:
                self.armed = True
                return action()
            finally:
                self.armed = False
        except KeyboardInterrupt:
            self.armed = False
            self.count += 1
            return None


def _globals() -> dict[str, Any]:
    """What the process keeps once, as plain values."""
    return {
        "torch's generator": torch.get_rng_state().numpy().tobytes(),
        "default dtype": str(torch.get_default_dtype()),
        "threads of torch": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "validation of Pyro": (
            pyro.distributions.is_validation_enabled(),
            pyro.infer.util.is_validation_enabled(),
            pyro.poutine.util.is_validation_enabled(),
            torch.distributions.Distribution._validate_args,
        ),
        "handlers of Pyro": len(pyro.poutine.runtime._PYRO_STACK),
        "store of Pyro": sorted(pyro.get_param_store().keys()),
        "predictions under way": len(evaluating._predicting) + len(evaluating._users),
        "models in training": len(evaluating._trained),
        "filters of warnings": len(warnings.filters),
    }


def _turn_is_free() -> bool:
    """Whether another thread gets its turn."""

    def take() -> bool:
        with exclusively():
            return True

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(take).result(timeout=60.0)


def _memory() -> float:
    """Megabytes in memory, without what is free already; NaN where the system does not say."""
    gc.collect()
    with suppress(OSError, AttributeError):  # only the C library of GNU has it
        ctypes.CDLL(None).malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def soak(minutes: float, seed: int, path: Path, kinds: list[str]) -> pd.DataFrame:
    """Do random work; a row for each minute is written as it passes.

    :raises RuntimeError: for the first number or global that differs.
    """
    draw = random.Random(seed)
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work = Work(Path(folder), kinds)
        actions = work.actions()
        expected = {name: action() for name, action in actions.items()}
        modes = {k: [p.training for p in m.modules()] for k, m in work.models.items()}
        at_first, counts, lines = _globals(), Counter[str](), list[dict[str, Any]]()
        started, spent = time.monotonic(), 0.0
        with Interrupts(draw) as interrupts:
            while spent < 60.0 * minutes:
                _one_action(draw, actions, expected, interrupts, counts)
                for name, value in _globals().items():
                    if value != at_first[name]:
                        raise RuntimeError(f"{name} changed after {counts.total()} actions")
                for name, model in work.models.items():
                    if [p.training for p in model.modules()] != modes[name]:
                        raise RuntimeError(f"a mode of {name} changed")
                spent = time.monotonic() - started
                if spent >= min(60.0 * (len(lines) + 1), 60.0 * minutes):
                    if not _turn_is_free():
                        raise RuntimeError("the lock is held by nobody that runs")
                    lines.append(
                        {
                            "minute": round(spent / 60.0, 2),
                            "actions": counts.total(),
                            "of_threads": counts["threads"],
                            "interrupts": interrupts.count,
                            "memory_mb": round(_memory(), 1),
                            "objects": len(gc.get_objects()),
                            "seed": seed,
                            "versions": versions(),
                        }
                    )
                    write_csv(pd.DataFrame(lines), path)
                    print({k: v for k, v in lines[-1].items() if k != "versions"}, flush=True)
    return pd.DataFrame(lines)


def _one_action(
    draw: random.Random,
    actions: dict[str, Callable[[], Any]],
    expected: dict[str, Any],
    interrupts: Interrupts,
    counts: Counter[str],
) -> None:
    """One action, perhaps interrupted, or several in threads; their numbers are compared."""
    found: dict[str, Any]
    if draw.random() < 0.15:
        names = draw.sample(list(actions), 6)
        counts["threads"] += len(names)
        with ThreadPoolExecutor(3) as pool:
            parts = pool.map(lambda name: actions[name](), names)
            found = dict(zip(names, parts, strict=True))
    else:
        name = draw.choice(list(actions))
        counts[name] += 1
        if draw.random() < 0.3:
            found = {name: interrupts.during(actions[name])}
        else:
            found = {name: actions[name]()}
    for name, result in found.items():
        if result is not None and not _same(result, expected[name]):
            raise RuntimeError(f"{name} gave other numbers after {counts.total()} actions")


def report(table: pd.DataFrame) -> str:
    """What was done, and how memory changes after the first minutes."""
    last, later = table.iloc[-1], table[table["minute"] >= WARM]
    told = (
        f"{last['actions']:,} actions in {last['minute']:.0f} minutes, {last['of_threads']:,} in "
        f"threads, {last['interrupts']:,} interrupted: every number was that of the first time. "
    )
    if len(later) < 3:
        return told + f"It ended too soon after minute {WARM:g} to speak of memory."
    first, second = (
        f"{half.mean():.0f} MB ({half.min():.0f} to {half.max():.0f})"
        for half in np.array_split(later["memory_mb"].to_numpy(), 2)
    )
    return (
        told + f"After minute {WARM:g} it had {first} in the first half and {second} in the second."
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce soak`."""
    parser.add_argument("--minutes", type=float, default=60.0, help="how long, beside the start")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the work")
    parser.add_argument("--quick", action="store_true", help="a few seconds")
    parser.add_argument(
        "--output", type=a_path, default=Path("results"), help="folder of the results"
    )


def main(arguments: argparse.Namespace) -> None:
    """Work for the time that was asked for."""
    torch.set_num_threads(1)
    path = arguments.output / "soak.csv"
    try:
        minutes, kinds = arguments.minutes, list(KINDS)
        if arguments.quick:
            minutes, kinds = 0.1, ["members", "GCM", "IGCM"]
        table = soak(minutes, arguments.seed, path, kinds)
    except RuntimeError as error:
        print(f"soak: {error}", file=sys.stderr)
        sys.exit(1)
    print(f"{report(table)}\nwritten: {path}")
