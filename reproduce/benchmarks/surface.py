"""Time of `GCM.surface` against a PWL network that is called once for all pairs.

    python -m reproduce.benchmarks.surface

64 rows at 1,024 revenues: random ones, which all differ, and those of COMPAS, many of which repeat.
The numbers of a model that was not trained take as long as those of one that was.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.baselines import PWL
from reproduce.arguments import positive_count
from reproduce.benchmarks.paired import paired, show
from reproduce.tasks import load


def compare(x: Tensor, revenues: Tensor, hidden: int, draws: int, repeats: int) -> None:
    """Print milliseconds of both for one width of their hidden layers."""
    sizes = x.shape[1], revenues.shape[1]
    model = GCM(*sizes, hidden=hidden, num_samples=draws)
    model.learn_units(x, revenues, torch.zeros(len(x)))
    network = PWL(*sizes, hidden=hidden)
    sides = {
        "PWL, once for all pairs": lambda: network.surface(x, revenues, cached=False),
        "GCM.surface": lambda: model.surface(x, revenues),
    }
    show(paired(sides, repeats), next(iter(sides)))


def main() -> None:
    """Compare the two at both kinds of revenues and two widths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=positive_count, default=64)
    parser.add_argument("--revenues", type=positive_count, default=1024)
    parser.add_argument("--draws", type=positive_count, default=32)
    parser.add_argument("--hidden", type=positive_count, nargs="+", default=[16, 128])
    parser.add_argument("--repeats", type=positive_count, default=15)
    options = parser.parse_args()
    torch.manual_seed(0)
    compas = load("compas", "published")
    given = {
        "revenues that all differ": (
            torch.randn(options.rows, 33),
            torch.randn(options.revenues, 4),
        ),
        "revenues of COMPAS": (
            compas.x[: options.rows].float(),
            compas.r[: options.revenues].float(),
        ),
    }
    for hidden in options.hidden:
        for name, (x, revenues) in given.items():
            print(
                f"\n{len(x)} rows x {len(revenues)} {name}, width {hidden}, {options.draws} draws"
            )
            compare(x, revenues, hidden, options.draws, options.repeats)


if __name__ == "__main__":
    main()
