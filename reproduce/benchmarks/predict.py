"""Time of `GCM.predict` for one row and for many, and of `GCM.required_revenue`.

    python -m reproduce.benchmarks.predict

A PWL network of the same width stands beside them: it evaluates its network once for a row, GCM
once for every draw.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import torch

from pyro_gcm import GCM
from pyro_gcm.baselines import PWL
from reproduce.arguments import positive_count
from reproduce.benchmarks.paired import paired, show


def main() -> None:
    """Print milliseconds a call, and ratios to the first of each group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=positive_count, default=10_000)
    parser.add_argument("--draws", type=positive_count, nargs="+", default=[32, 128])
    parser.add_argument("--hidden", type=positive_count, default=16)
    parser.add_argument("--repeats", type=positive_count, default=15)
    options = parser.parse_args()
    torch.manual_seed(0)
    x, r = torch.randn(options.rows, 33), torch.randn(options.rows, 4)
    network = PWL(33, 4, hidden=options.hidden)
    models = {n: GCM(33, 4, hidden=options.hidden, num_samples=n) for n in options.draws}
    for model in models.values():
        model.learn_units(x, r, torch.zeros(len(x)))
    for rows in (1, options.rows):
        part = x[:rows], r[:rows]
        sides: dict[str, Callable[[], object]] = {"PWL.predict": partial(network.predict, *part)}
        for n, model in models.items():
            sides[f"GCM.predict, {n} draws"] = partial(model.predict, *part)
        print(f"\n{rows} rows")
        show(paired(sides, options.repeats), "PWL.predict")
    print("\n64 rows")
    for n, model in models.items():
        one = f"GCM.predict, {n} draws"
        sides = {
            one: partial(model.predict, x[:64], r[:64]),
            "GCM.required_revenue": partial(model.required_revenue, x[:64]),
        }
        show(paired(sides, options.repeats), one)


if __name__ == "__main__":
    main()
