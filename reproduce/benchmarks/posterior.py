"""Time of posterior draws, in ms a row, against draws of the same rows without their outcomes.

    python -m reproduce.benchmarks.posterior

GCM of default sizes, 33 covariates and 4 revenues, 1,000 draws of each row. "usual": trained for
some epochs, with the outcomes of the rows. "rare": untrained, with random outcomes, of which many
have a small probability, so that a draw takes many proposals.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyro_gcm import GCM, fit, to_arviz
from reproduce.arguments import positive_count
from reproduce.benchmarks.paired import paired, show

PRIOR = "posterior(x, r), without y"


def usual(rows: int) -> tuple[Any, Tensor, Tensor, Tensor]:
    """A trained model and rows like those that it has seen."""
    x, r = torch.randn(rows + 4000, 33), torch.randn(rows + 4000, 4)
    cost = 0.7 * x[:, :4] - 1.2 + 0.6 * torch.randn_like(r)
    y = (cost < r).all(-1).float()
    model = GCM(33, 4)
    fit(model, x[rows:], r[rows:], y[rows:], epochs=5, progress=False)
    return model, x[:rows], r[:rows], y[:rows]


def rare(rows: int) -> tuple[Any, Tensor, Tensor, Tensor]:
    """An untrained model, and outcomes that it does not expect."""
    y = torch.randint(2, (rows,)).float()
    return GCM(33, 4), torch.randn(rows, 33), torch.randn(rows, 4), y


def main() -> None:
    """Print medians and paired ratios for both kinds of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=positive_count, default=1000)
    parser.add_argument("--num-samples", type=positive_count, default=1000)
    parser.add_argument("--repeats", type=positive_count, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # untrained models, and rare outcomes
    asked: Any = {"num_samples": options.num_samples, "progress": False}
    for case in (usual, rare):
        torch.manual_seed(0)
        model, *rows = case(options.rows)
        sides: dict[str, Callable[[], object]] = {
            PRIOR: partial(model.posterior, *rows[:2], **asked),
            "cost_posterior": partial(model.cost_posterior, *rows, **asked),
            "to_arviz": partial(to_arviz, model, *rows, **asked),
        }
        seconds = paired(sides, options.repeats, warm_up=1)
        proposals = model.posterior(*rows, **asked).proposals.mean().item()
        print(f"{case.__name__} outcomes, {options.rows} rows, {proposals:.0f} proposals a row")
        show({k: [t / options.rows for t in times] for k, times in seconds.items()}, PRIOR)


if __name__ == "__main__":
    main()
