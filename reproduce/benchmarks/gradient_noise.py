"""Noise of the guide's gradient at 32 particles: gradient "iwae" against "dreg".

    python -m reproduce.benchmarks.gradient_noise

The noise is the standard deviation of a coordinate of the gradient over repeated draws, averaged
over the coordinates: of the two guide parameters of a toy whose posterior is known, and of the
guide network of a GCM on one mini-batch of COMPAS.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm import GCM, data
from pyro_gcm.inference import ImportanceWeightedELBO, conditional
from reproduce.arguments import positive_count

N = 32
BATCH = 256


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


def _show(where: str, result: dict[str, float]) -> None:
    iwae, dreg = result["iwae"], result["dreg"]
    print(f"{where:32s} iwae {iwae:9.4g}  dreg {dreg:9.4g}  ratio {iwae / dreg:6.2f}")


def main() -> None:
    """Print the noise of both gradients and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=positive_count, default=400)
    parser.add_argument("--seed", type=int, default=0, help="of the model and its training")
    options = parser.parse_args()
    torch.set_num_threads(1)
    toy = NearPosterior()
    _show("near the posterior", compare(toy.model, toy.guide, [toy.a, toy.log_s], options.repeats))

    compas = data.load("compas")
    rows = [compas.x.float(), compas.r.float(), compas.y.float()]
    model = GCM(compas.x_dim, compas.r_dim, guide="posterior", seed=options.seed)
    model.x_standardizer.learn(compas.x)
    model.r_standardizer.learn(compas.r)
    guide: Any = model.z_guide
    program = conditional(model.model)
    order = torch.Generator().manual_seed(options.seed)
    batch = [column[:BATCH] for column in rows]
    bound = ImportanceWeightedELBO(N, max_plate_nesting=1)
    optimizer = torch.optim.Adam(model.trained_parameters().values(), lr=0.01)
    with pyro.get_param_store().scope(), pyro.validation_enabled(False):
        for steps in (0, 200):
            torch.manual_seed(options.seed)  # training does not depend on the repeats
            for _ in range(steps):
                index = torch.randint(len(compas), (BATCH,), generator=order)
                optimizer.zero_grad()
                loss = bound.differentiable_loss(
                    program, model.guide, *(column[index] for column in rows)
                )
                (loss / BATCH).backward()
                optimizer.step()
            result = compare(
                lambda: program(*batch),
                lambda: model.guide(*batch),
                list(guide.parameters()),
                options.repeats,
            )
            _show(f"GCM on COMPAS, {steps} steps", result)


if __name__ == "__main__":
    main()
