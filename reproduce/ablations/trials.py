"""Trials until a threshold is known, by how the next level is chosen.

An observer answers at one of 41 levels. A finite number of curves is possible: normal ones with
parameters on a grid, as QUEST+ has them (Watson 2017), or random ones, order events whose costs are
mixtures of up to three normal distributions. The next level is the one that tells most about the
threshold, or a random one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_gcm.decisions import Trials
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Scores
from reproduce.study import Study, named

LEVELS = torch.linspace(-2.0, 2.0, 41, dtype=torch.float64)
CURVES, MOST, TARGET = 2000, 300, 0.2
REACHED = f"trials until the error stays below {TARGET:g}"
#: Trials after which the error is reported too.
AT = (50, 200)


def normal(mean: Tensor, scale: Tensor) -> Tensor:
    """Pr(cost < level), [..., 41]."""
    return torch.special.ndtr((LEVELS - mean[..., None]) / scale[..., None])


def _steep(shift: Tensor) -> Tensor:
    return normal(shift + 0.3, torch.tensor(0.4))


def _skewed(shift: Tensor) -> Tensor:
    return -torch.expm1(-torch.exp(1.5 * (LEVELS - shift - 0.2)))


def _two_kinds(shift: Tensor) -> Tensor:
    return 0.5 * normal(shift + torch.tensor([-1.0, 1.0]), torch.tensor([0.2, 0.2])).sum(0)


#: Name -> share of events as a function of a shift, and the guess rate, which is known.
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "normal": (_steep, 0.0),
    "skewed, two keys": (_skewed, 0.5),
    "two kinds of observers": (_two_kinds, 0.0),
}
LAPSE = 0.03


def on_a_grid(generator: torch.Generator) -> Tensor:
    """Curves of one normal cost with parameters on a grid, and lapse rates, [S, 41]."""
    mean, scale = torch.linspace(-2.0, 2.0, 41), torch.logspace(-1.0, 0.3, 15)
    shares = normal(*torch.meshgrid(mean, scale, indexing="ij")).flatten(0, 1)
    return torch.cat([(1.0 - lapse) * shares for lapse in (0.0, 0.02, 0.05, 0.1)])


def random_mixtures(generator: torch.Generator) -> Tensor:
    """Curves of costs with random mixtures of normal distributions, and lapse rates, [S, 41]."""
    size = CURVES, 3
    options: Any = {"generator": generator, "dtype": torch.float64}
    mean, log_scale = torch.randn(size, **options), torch.randn(size, **options)
    share = torch.empty(size, dtype=torch.float64).exponential_(generator=generator)
    share *= torch.arange(3) <= torch.randint(3, (CURVES, 1), generator=generator)
    curves = normal(1.2 * mean, torch.exp(0.6 * log_scale - 1.0))
    mixed = (curves * (share / share.sum(1, keepdim=True))[..., None]).sum(1)
    return mixed * (1.0 - 0.1 * torch.rand(CURVES, 1, **options))


#: Name -> the curves, and whether levels are asked for.
METHODS = {
    "mixtures, asked": (random_mixtures, True),
    "mixtures, random levels": (random_mixtures, False),
    "QUEST+": (on_a_grid, True),
    "QUEST+ curves, random levels": (on_a_grid, False),
}


def threshold(share: Tensor) -> Tensor:
    """The first level that three quarters of the observers notice, or the last one, [...]."""
    reached = share >= 0.75
    reached[..., -1] = True
    return LEVELS[reached.int().argmax(-1)]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One experiment: the error of the mean threshold after each trial."""
    start = time.perf_counter()
    generator = torch.Generator().manual_seed(fit.seed)
    function, guess = FUNCTIONS[fit.dataset]
    shift = 0.3 * torch.randn((), generator=generator, dtype=torch.float64)
    share = (1.0 - LAPSE) * function(shift)
    truth = guess + (1.0 - guess) * share
    answers = torch.rand(MOST, generator=generator, dtype=torch.float64)
    levels = torch.randint(len(LEVELS), (MOST,), generator=generator)
    curves, asks = METHODS[fit.method]
    possible = curves(generator)
    known = threshold(possible)
    trials = Trials(guess + (1.0 - guess) * possible, about=known)
    errors: list[float] = []
    for answer, level in zip(answers, levels, strict=True):
        chosen = trials.ask()[0] if asks else int(level)
        trials.tell(chosen, bool(answer < truth[chosen]))
        errors.append(abs((trials.weights @ known - threshold(share)).item()))
    reached = max((i + 2 for i, error in enumerate(errors) if error > TARGET), default=1)
    found: Scores = {"seconds": time.perf_counter() - start, "epochs": 0, REACHED: reached}
    return found | {f"error after {count}": errors[count - 1] for count in AT}


def report(table: pd.DataFrame, name: str) -> str:
    """Every score of every method, of one function."""
    return compared(table[table["dataset"] == name], METHODS, independent=True)


STUDY = Study(
    *("trials", str(__doc__), FUNCTIONS, METHODS, run, "7"),
    count=50,
    counted="seeds",
    quick_count=2,
    protocol="simulated",
    splits=named(""),
)
