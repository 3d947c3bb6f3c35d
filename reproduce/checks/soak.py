"""Random work in one process for an hour: no memory grows, nothing leaks, no number changes.

Fits of all kinds, predictions, posteriors, saves, loads, audits, estimators, and threads. After
every action: every result equal to the first of its kind, bit by bit, and what torch and Pyro keep
once for the process as it was.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import random
import sys
import tempfile
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

import pyro_gcm
from pyro_gcm._utils import evaluating
from pyro_gcm._utils.process_state import exclusively
from reproduce.arguments import a_path
from reproduce.checks.kinds import KINDS, loaded, rows, trained
from reproduce.results import versions, write_csv

#: Minutes after which memory is not to grow any more.
WARM = 10.0
Actions = dict[str, Callable[[], Any]]


def of_model(name: str, model: Any, folder: Path) -> Actions:
    """What is done to a model, or to a new one of its kind: name -> function that returns numbers.

    They are the same every time.
    """
    x, r, y = rows(KINDS[name].response)
    few = x[:20], r[:20], y[:20]

    def violations() -> Any:
        audit = pyro_gcm.audit_monotonicity(model, x[:50], r[:50], pairs=500, progress=False)
        return np.array(audit.violations)

    made: Actions = {
        "fit": lambda: dict(trained(name).state_dict()),
        "predict": lambda: model.predict(x, r),
        "save": lambda: loaded(model).predict(x, r),
    }
    if KINDS[name].response == "binary":
        made |= {
            "surface": lambda: model.surface(*few[:2]),
            "log_prob": lambda: model.log_prob(x, r, y),
            "posterior": lambda: dict(model.posterior(*few, num_samples=50, progress=False)),
            "audit": violations,
        }
    return {f"{what} {name}": action for what, action in made.items()}


def of_estimator() -> Actions:
    """The same of an estimator on a table."""
    x, r, y = rows("binary")
    table = pd.DataFrame(torch.cat([x, r], 1).numpy(), columns=[*"abcde"])

    def fitted() -> Any:
        made = pyro_gcm.estimators.GCMClassifier(monotonic_cst={"d": 1, "e": 1}, epochs=2)
        return made.fit(table, y.numpy() > 0)

    estimator = fitted()
    return {
        "estimator fit": lambda: fitted().predict_proba(table),
        "estimator predict": lambda: estimator.predict_proba(table),
        "estimator save": lambda: loaded(estimator).predict_proba(table),
    }


def _kept(models: dict[str, Any]) -> dict[str, Any]:
    """What the process keeps once, as plain values, and the modes of the models."""
    return {
        "torch's generator": torch.get_rng_state().numpy().tobytes(),
        "default dtype": torch.get_default_dtype(),
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
        "predictions under way": len(evaluating._users),
        "filters of warnings": len(warnings.filters),
        **{f"a mode of {name}": [p.training for p in m.modules()] for name, m in models.items()},
    }


def _take_turn() -> None:
    with exclusively():
        pass


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

    :raises AssertionError: for the first number that differs.
    :raises RuntimeError: for the first thing that the process keeps and that differs.
    :raises TimeoutError: if another thread does not get its turn.
    """
    draw, counts, lines = random.Random(seed), Counter[str](), list[dict[str, Any]]()
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models, actions = {kind: trained(kind) for kind in kinds}, of_estimator()
        for kind, model in models.items():
            actions |= of_model(kind, model, Path(folder))
        expected = {name: action() for name, action in actions.items()}
        at_first, started, spent = _kept(models), time.monotonic(), 0.0
        while spent < 60.0 * minutes:
            for name, result in _work(draw, actions, counts).items():
                told = f"{name} gave other numbers after {counts['actions']} actions"
                same: Any = {"rtol": 0.0, "atol": 0.0, "equal_nan": True}
                torch.testing.assert_close(result, expected[name], **same, msg=told)
            for name, value in _kept(models).items():
                if value != at_first[name]:
                    raise RuntimeError(f"{name} changed after {counts['actions']} actions")
            spent = time.monotonic() - started
            if spent >= min(60.0 * (len(lines) + 1), 60.0 * minutes):
                with ThreadPoolExecutor(1) as pool:  # the lock is held by nobody
                    pool.submit(_take_turn).result(timeout=60.0)
                lines.append(
                    {
                        "minute": round(spent / 60.0, 2),
                        **{name: counts[name] for name in ("actions", "of_threads")},
                        "memory_mb": round(_memory(), 1),
                        "objects": len(gc.get_objects()),
                        "seed": seed,
                        "versions": versions(),
                    }
                )
                write_csv(pd.DataFrame(lines), path)
                print({k: v for k, v in lines[-1].items() if k != "versions"}, flush=True)
    return pd.DataFrame(lines)


def _work(draw: random.Random, actions: Actions, counts: Counter[str]) -> dict[str, Any]:
    """What one action returns, or what six in threads do."""
    if draw.random() < 0.15:
        names = draw.sample(list(actions), 6)
        counts.update(actions=6, of_threads=6)
        with ThreadPoolExecutor(3) as pool:
            found = pool.map(lambda name: actions[name](), names)
            return dict(zip(names, found, strict=True))
    name = draw.choice(list(actions))
    counts.update(actions=1)
    return {name: actions[name]()}


def report(table: pd.DataFrame) -> str:
    """What was done, and how memory changes after the first minutes."""
    last, later = table.iloc[-1], table[table["minute"] >= WARM]
    told = (
        f"{last['actions']:,} actions in {last['minute']:.0f} minutes, {last['of_threads']:,} in "
        "threads: every number was that of the first time. "
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
    except (RuntimeError, AssertionError, TimeoutError) as error:
        print(f"soak: {error}", file=sys.stderr)
        sys.exit(1)
    print(f"{report(table)}\nwritten: {path}")
