"""Ten copies of a baseline trained side by side by `fit_many`, against `fit` of one after another.

    python -m reproduce.benchmarks.copies

Every baseline of the quantile experiment, on rows as in that experiment, in CPU time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from pyro_gcm import baselines
from reproduce.arguments import positive_count
from reproduce.benchmarks.paired import paired, show
from reproduce.data import simulation
from reproduce.methods import METHODS
from reproduce.quantile import BATCH, QUANTILE_METHODS

BASELINES = [name for name in QUANTILE_METHODS if not METHODS[name].latent]


def fits(name: str, copies: int, steps: int) -> dict[str, Callable[[], object]]:
    """All copies by either side; each call trains new models."""
    data = [simulation.sample(BATCH * steps, seed) for seed in range(copies)]
    options: dict[str, Any] = {"epochs": 1, "batch_size": BATCH, "device": "cpu", "progress": False}

    def made() -> list[Any]:
        make = partial(METHODS[name].make, 1, 1, response="quantile", hidden=32)
        return [make(seed=seed) for seed in range(copies)]

    def one_by_one() -> None:
        for seed, (model, rows) in enumerate(zip(made(), data, strict=True)):
            baselines.fit(model, *rows, seed=seed, **options)

    def side_by_side() -> None:
        columns = zip(*data, strict=True)
        baselines.fit_many(made(), *columns, seeds=range(copies), **options)

    return {"one by one": one_by_one, "side by side": side_by_side}


def main() -> None:
    """Print median milliseconds of both sides and the ratio of every baseline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--baselines", nargs="+", choices=BASELINES, default=BASELINES)
    parser.add_argument("--copies", type=positive_count, default=10)
    parser.add_argument("--steps", type=positive_count, default=1000)
    parser.add_argument("--repeats", type=positive_count, default=3)
    options = parser.parse_args()
    for name in options.baselines:
        print(f"\n{name}, {options.copies} copies, {options.steps} steps")
        show(paired(fits(name, options.copies, options.steps), options.repeats, 1), "one by one")


if __name__ == "__main__":
    main()
