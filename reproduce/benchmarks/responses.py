"""What a training step and a prediction of every response cost beside those of a binary one.

python -m reproduce.benchmarks.responses
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from pyro_gcm import GCM, fit
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.responses import Ordinal
from reproduce.arguments import positive_count
from reproduce.benchmarks.paired import paired, show

_ROWS, _BATCH = 2560, 256


def outcomes(score: torch.Tensor) -> dict[str, tuple[Any, Any]]:
    """A response and its y, by name, for scores [n]."""
    time = (-score).exp().double()
    return {
        "binary": ("binary", (score > 1.0).float()),
        "continuous": ("continuous", score),
        "ordinal, 4 levels": (Ordinal(levels=4), torch.bucketize(score, torch.arange(3.0))),
        "distribution": ("distribution", score.double().exp()),
        "survival, right-censored": (
            "survival",
            SurvivalTimes.right_censored(time.clamp(max=0.5), time <= 0.5),
        ),
        "survival, intervals": ("survival", SurvivalTimes(0.8 * time, 1.2 * time)),
    }


def main() -> None:
    """Print milliseconds of every response, and its ratio to the binary one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=positive_count, default=10)
    parser.add_argument("--epochs", type=positive_count, default=3, help="of ten steps each")
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(_ROWS, 8, generator=generator)
    r = torch.rand(_ROWS, 3, generator=generator)
    score = x[:, 0] + r.sum(1) + 0.5 * torch.randn(_ROWS, generator=generator)
    for prior in ("conditional", "members"):
        fits: dict[str, Callable[[], object]] = {}
        predictions: dict[str, Callable[[], object]] = {}
        for name, (response, y) in outcomes(score).items():
            model = GCM(8, 3, response=response, prior=prior)
            common: Any = {"epochs": options.epochs, "batch_size": _BATCH, "progress": False}
            fits[name] = partial(fit, model, x, r, y, **common)
            predictions[name] = partial(model.predict, x, r)
        for what, sides in (("fit", fits), ("predict", predictions)):
            print(f"\nprior={prior!r}, {what}, {_ROWS} rows")
            show(paired(sides, options.repeats, warm_up=1), "binary")


if __name__ == "__main__":
    main()
