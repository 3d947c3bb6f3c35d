"""CPU and wall time beside busy neighbours, in the default environment and with OMP_NUM_THREADS=1.

    python -m reproduce.benchmarks.threads

Fits of a GCM and of members, predictions, and steps of Pyro's SVI in `one_thread()` and without it,
which alone uses torch's default: in a process of their own each time, so that the environment
applies, while 0, 1 and 2 other processes take a core each. The two environments take turns.

    python -m reproduce.benchmarks.threads --batches

Fits with `threads=1` and 2, by batch and width; for quiet cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from reproduce.arguments import positive_count
from reproduce.benchmarks.paired import paired, ratio

#: Free and monotone columns.
X_DIM, R_DIM = 8, 3
#: Variables that tell a process its number of threads.
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
#: What a neighbour runs until it is killed, or whoever started it has ended.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
CODE = "import json; from reproduce.benchmarks import threads; print(json.dumps(threads.seconds{}))"
Seconds = dict[str, tuple[float, float]]


@contextmanager
def neighbours(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Inside, so many other processes take a core each."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield others
    finally:
        for other in others:
            other.kill()
            other.wait()


def rows(count: int) -> tuple[Any, Any, Any]:
    """Simulated x, r and y."""
    import torch

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, X_DIM, generator=generator)
    r = torch.randn(count, R_DIM, generator=generator)
    return x, r, (r.sum(1) > x[:, 0] + torch.randn(count, generator=generator)).float()


def seconds(count: int, epochs: int, predictions: int) -> Seconds:
    """CPU and wall seconds of each piece of work, in this process.

    :param count: rows of the fits and of each of as many steps of SVI as there are `epochs`.
    """
    from pyro.infer import SVI, Trace_ELBO
    from pyro.optim import PyroOptim
    from torch.optim import Adam

    from pyro_gcm import GCM, fit, fit_members, one_thread
    from pyro_gcm.inference import conditional
    from pyro_gcm.members import MemberSettings

    data, (x, r, _) = rows(count), rows(predictions)
    options: Any = {"progress": False, "device": "cpu"}
    settings = MemberSettings(epochs=epochs)
    model = GCM(X_DIM, R_DIM)
    fit(model, *(column[:300] for column in data), epochs=1, **options)  # loads what is loaded once
    bound = Trace_ELBO(max_plate_nesting=1)
    svi = SVI(conditional(model.model), model.guide, PyroOptim(Adam, {"lr": 1e-3}), bound)

    def steps(inside: Any) -> None:
        with inside():
            for _ in range(epochs):
                svi.step(*data)

    steps(nullcontext)
    work: dict[str, Callable[[], object]] = {
        "fit of a GCM": lambda: fit(model, *data, epochs=epochs, **options),
        "fit of members": lambda: fit_members(
            *data, settings=settings, early_stopping=False, **options
        ),
        "predictions": lambda: model.predict(x, r),
        "SVI in one_thread()": partial(steps, one_thread),
        "SVI": partial(steps, nullcontext),
    }
    found: Seconds = {}
    for name, call in work.items():
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        found[name] = time.process_time() - cpu, time.perf_counter() - wall
    return found


def in_environment(variables: dict[str, str], *sizes: int) -> Seconds:
    """What `seconds` finds in a new process with these variables."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(sizes)],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: Seconds = json.loads(done.stdout)
    return found


def beside(count: int, repeats: int, *sizes: int) -> None:
    """Print the work beside so many busy processes: medians, and of the ratios with quartiles."""
    of_default, of_one = [], []
    with neighbours(count):
        for _ in range(repeats):
            of_default.append(in_environment({}, *sizes))
            of_one.append(in_environment({"OMP_NUM_THREADS": "1"}, *sizes))
    for name in of_one[0]:
        cells = [f"{count} busy", f"{name:20s}"]
        for place in (0, 1):
            default, one = ([run[name][place] for run in runs] for runs in (of_default, of_one))
            low, middle, high = ratio(default, one)
            cells.append(f"{np.median(default):7.2f} / {np.median(one):6.2f}")
            cells.append(f"{middle:5.2f} ({low:.2f} to {high:.2f})")
        print(" | ".join(cells), flush=True)


def by_batch(batches: list[int], widths: list[int], repeats: int, steps: int) -> None:
    """Print fits with two threads beside those with one: CPU and wall time by batch and width."""
    from pyro_gcm import GCM, fit, fit_members
    from pyro_gcm.members import MemberSettings
    from pyro_gcm.training import FitSettings

    print("batch | width | what | CPU, 2 threads / 1 | wall, 2 threads / 1")
    for batch in batches:
        data = rows(steps * batch)
        options: Any = {"progress": False, "device": "cpu"}
        for width in widths:
            settings = MemberSettings(epochs=1, width=width, batch_size=batch)
            gcm = GCM(X_DIM, R_DIM, hidden=width)
            of_gcm = partial(fit, gcm, *data, epochs=1, batch_size=batch, **options)
            members = partial(fit_members, *data, settings=settings, **options)
            runs: dict[str, list[Any]] = {
                "GCM": [partial(of_gcm, settings=FitSettings(threads=n)) for n in (1, 2)],
                "members": [partial(members, early_stopping=False, threads=n) for n in (1, 2)],
            }
            for name, both in runs.items():
                sides = dict(zip("12", both, strict=True))
                cells = [f"{batch:6d}", f"{width:4d}", f"{name:7s}"]
                for clock in (time.process_time, time.perf_counter):
                    times = paired(sides, repeats, warm_up=1, clock=clock)
                    low, middle, high = ratio(times["2"], times["1"])
                    cells.append(f"{middle:5.2f} ({low:.2f} to {high:.2f})")
                print(" | ".join(cells), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=positive_count, default=4_000)
    parser.add_argument("--epochs", type=positive_count, default=10)
    parser.add_argument("--predictions", type=positive_count, default=10_000)
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--repeats", type=positive_count, default=5)
    parser.add_argument("--batches", action="store_true", help="threads=2 beside threads=1")
    parser.add_argument("--sizes", type=positive_count, nargs="+", default=[256, 1024, 4096, 16384])
    parser.add_argument("--widths", type=positive_count, nargs="+", default=[16, 64, 256])
    parser.add_argument("--steps", type=positive_count, default=8)
    options = parser.parse_args()
    if options.batches:
        by_batch(options.sizes, options.widths, options.repeats, options.steps)
        return
    print("neighbours | work | CPU s, default / one thread | ratio | wall s | ratio")
    for count in options.neighbours:
        beside(count, options.repeats, options.rows, options.epochs, options.predictions)


if __name__ == "__main__":
    main()
