"""Noise of the guide's gradient at 32 particles: gradient "iwae" against "dreg".

The noise is the standard deviation of a coordinate of the gradient over repeated draws, averaged
over the coordinates: of the two guide parameters of a toy whose posterior is known, and of the
guide network of a GCM on one mini-batch of COMPAS.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pandas as pd
import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm import GCM, data
from pyro_gcm.inference import ImportanceWeightedELBO, conditional
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores
from reproduce.study import Study

N = 32
BATCH = 256
#: Draws of a gradient, and steps of training before.
REPEATS, STEPS = 400, (0, 200)
TOY = "toy"


class NearPosterior:
    """z ~ N(0, I_2) and y ~ N(z, 0.25 I) in 64 rows; the guide N(a y, s^2 I), a little off.

    Posterior: a = 0.8, s^2 = 0.2. The guide has a = 0.82 and s^2 = 0.2 e^0.1.
    """

    def __init__(self) -> None:
        g = torch.Generator().manual_seed(0)
        self.y = torch.randn(64, 2, generator=g, dtype=torch.float64) * math.sqrt(1.25)
        self.a = torch.tensor(0.82, dtype=torch.float64, requires_grad=True)
        log_s = torch.tensor(0.5 * math.log(0.2) + 0.05, dtype=torch.float64)
        self.log_s = log_s.requires_grad_()

    def model(self) -> None:
        """z, y."""
        with pyro.plate("data", 64):
            z = pyro.sample("z", dist.Normal(torch.zeros_like(self.y), 1.0).to_event(1))
            pyro.sample("y", dist.Normal(z, 0.5).to_event(1), obs=self.y)

    def guide(self) -> None:
        """z."""
        with pyro.plate("data", 64):
            pyro.sample("z", dist.Normal(self.a * self.y, self.log_s.exp()).to_event(1))


def noise(loss: Callable[[], Tensor], parameters: Sequence[Tensor], repeats: int) -> float:
    """Standard deviation of the gradient over repeats, mean over coordinates."""
    draws = [
        torch.cat([g.flatten() for g in torch.autograd.grad(loss(), parameters)])
        for _ in range(repeats)
    ]
    return float(torch.stack(draws).std(0).mean())


def compare(model: Any, guide: Any, parameters: Sequence[Tensor], repeats: int) -> dict[str, float]:
    """The noise of each gradient."""
    result = {}
    for gradient in ("iwae", "dreg"):
        bound = ImportanceWeightedELBO(N, gradient=gradient, max_plate_nesting=1)
        torch.manual_seed(1)
        result[gradient] = noise(
            partial(bound.differentiable_loss, model, guide), parameters, repeats
        )
    return result


def cells(fit: Fit) -> Iterable[Fit]:
    """The toy, which is not trained, once."""
    return [fit] if fit.dataset != TOY or (fit.split, fit.seed) == ("0", 0) else []


def run(fit: Fit, device: str = "cpu") -> Scores:
    """The noise of both gradients, and their ratio."""
    started, repeats = time.perf_counter(), fit.options["repeats"]
    if fit.dataset == TOY:
        toy = NearPosterior()
        found = compare(toy.model, toy.guide, [toy.a, toy.log_s], repeats)
    else:
        found = _of_gcm(fit.seed, int(fit.split), repeats)
    ratio = found["iwae"] / found["dreg"]
    return {**found, "ratio": ratio, "seconds": time.perf_counter() - started, "epochs": 0}


def _of_gcm(seed: int, steps: int, repeats: int) -> dict[str, float]:
    """Of the guide of a GCM on one mini-batch of COMPAS, after some steps of training."""
    compas = data.load("compas")
    rows = [column.float() for column in (compas.x, compas.r, compas.y)]
    model = GCM(compas.x_dim, compas.r_dim, guide="posterior", seed=seed)
    model.x_standardizer.learn(compas.x)
    model.r_standardizer.learn(compas.r)
    program = conditional(model.model)
    order = torch.Generator().manual_seed(seed)
    batch = [column[:BATCH] for column in rows]
    bound = ImportanceWeightedELBO(N, max_plate_nesting=1)
    optimizer = torch.optim.Adam(model.trained_parameters().values(), lr=0.01)
    with pyro.get_param_store().scope(), pyro.validation_enabled(False):
        torch.manual_seed(seed)
        for _ in range(steps):
            index = torch.randint(len(compas), (BATCH,), generator=order)
            optimizer.zero_grad()
            drawn = (column[index] for column in rows)
            (bound.differentiable_loss(program, model.guide, *drawn) / BATCH).backward()
            optimizer.step()
        guide: Any = model.z_guide
        both = partial(program, *batch), partial(model.guide, *batch)
        return compare(*both, list(guide.parameters()), repeats)


def report(table: pd.DataFrame) -> str:
    """A line for each place: both noises of the first seed, and the ratios of all."""
    lines = []
    for (name, steps), rows in table.groupby(["dataset", "split"], sort=False):
        of = rows.pivot(index="seed", columns="metric", values="value")
        place = "near the posterior of a toy" if name == TOY else f"GCM on COMPAS, {steps} steps"
        ratios = dict.fromkeys(f"{ratio:.1f}" for ratio in (of["ratio"].min(), of["ratio"].max()))
        lines.append([place, *(f"{value:.3g}" for value in of.iloc[0][["iwae", "dreg"]])])
        lines[-1].append(" to ".join(ratios))
    return markdown(["", "iwae", "dreg", "ratio"], lines)


STUDY = Study(
    *("gradient_noise", str(__doc__), {TOY: "toy", "compas": "COMPAS"}, {"guide": None}),
    *(run, report),
    count=4,
    counted="seeds",
    protocol="noise",
    splits=lambda count: ((str(steps), seed) for seed in range(count) for steps in STEPS),
    settings=lambda method: {"repeats": REPEATS},
    cells=cells,
    quick={"repeats": 5},
)
