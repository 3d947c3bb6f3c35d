"""How time grows with every size: slopes of log time against log size, of GCM on one thread.

    python -m reproduce.benchmarks.growth

A slope of 1 is time in proportion to the size, 0 is none. Sizes run in turn, in CPU time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from pyro_gcm import GCM, fit
from reproduce.arguments import positive_count
from reproduce.benchmarks.paired import paired

X_DIM, STEPS = 33, 20
#: The sizes around which one is varied, as multiples 1/2, 1, 2, 4, ...
BASE = {"B": 128, "N": 16, "r_dim": 4, "hidden": 16, "R": 128}
MEANING = {
    "B": "rows (of a batch)",
    "N": "draws of z",
    "r_dim": "revenues of a row",
    "hidden": "width of the networks",
    "R": "points of the surface",
}


def training_step(b: int, n: int, r_dim: int, hidden: int, _: int) -> Callable[[], object]:
    """`STEPS` steps of `fit`."""
    model, (x, r) = GCM(X_DIM, r_dim, hidden=hidden), rows(b * STEPS, r_dim)
    y = (r[:, 0] > x[:, 0]).float()
    return partial(
        fit, model, x, r, y, epochs=1, batch_size=b, num_particles=n, progress=False, device="cpu"
    )


def predict(b: int, n: int, r_dim: int, hidden: int, _: int) -> Callable[[], object]:
    """`GCM.predict` for B rows."""
    return partial(model(r_dim, hidden).predict, *rows(b, r_dim), num_samples=n)


def surface(b: int, n: int, r_dim: int, hidden: int, points: int) -> Callable[[], object]:
    """`GCM.surface` for B rows at R different revenues."""
    x, revenues = rows(b, r_dim)[0], rows(points, r_dim)[1]
    return partial(model(r_dim, hidden).surface, x, revenues, num_samples=n)


def model(r_dim: int, hidden: int) -> GCM:
    """A model that predicts without a warning."""
    made = GCM(X_DIM, r_dim, hidden=hidden)
    made.learn_units(*rows(100, r_dim), torch.zeros(100))
    return made


def rows(n: int, r_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """x and r."""
    return torch.randn(n, X_DIM), torch.randn(n, r_dim)


CALLS = {"training step": training_step, "predict": predict, "surface": surface}


def slope(seconds: dict[int, float]) -> float:
    """Least-squares slope of log seconds against log size."""
    return float(np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0])


def medians(call: str, size: str, points: int, repeats: int) -> dict[int, float]:
    """Median CPU seconds at every value of one size, from half of its base."""
    values = [BASE[size] * 2**i // 2 for i in range(points)]
    sides = {str(v): CALLS[call](*(BASE | {size: v}).values()) for v in values}
    times = paired(sides, repeats, warm_up=1)
    steps = STEPS if call == "training step" else 1
    return {v: float(np.median(times[str(v)])) / steps for v in values}


def main() -> None:
    """Print a table of slopes, with the times at the smallest and the largest size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=positive_count, default=4, help="values of every size")
    parser.add_argument("--repeats", type=positive_count, default=7)
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"around {BASE}, {X_DIM} covariates; slope (ms at the smallest to ms at the largest)")
    print(f"{'':32s}" + "".join(f"{call:>28s}" for call in CALLS))
    for size, meaning in MEANING.items():
        line = f"{size + ', ' + meaning:32s}"
        for call in CALLS:
            if size == "R" and call != "surface":
                line += f"{'':28s}"
                continue
            times = medians(call, size, options.points, options.repeats)
            first, *_, last = times.values()
            line += f"{f'{slope(times):.2f} ({1e3 * first:.2f} to {1e3 * last:.2f})':>28s}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
