"""Time of one training step of GCM through Pyro, against the same loss written by hand in torch.

    python -m reproduce.benchmarks.training_step

Both sides run in turn in one process on one thread, with the same networks and optimiser; the
ratio of the medians is what to quote, since the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import math
import time

import pyro
import torch
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.inference import ImportanceWeightedELBO, conditional, unannounced
from reproduce.arguments import positive_count

N = 32


def by_hand(model: GCM, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
    """The importance-weighted bound with guide = prior, in float64 where GCM is."""
    q = model.z_prior(x)
    z = q.rsample((N,))
    cost = model.cost_net(z).base_dist
    u = (r.double() - cost.loc) / cost.scale
    log_hit, log_miss = torch.special.log_ndtr(u), torch.special.log_ndtr(-u)
    before = torch.nn.functional.pad(log_hit.cumsum(-1)[..., :-1], (1, 0))
    log_p = torch.where(y > 0.5, log_hit.sum(-1), torch.logsumexp(before + log_miss, -1))
    return -(torch.logsumexp(log_p, 0) - math.log(N)).sum()


def main() -> None:
    """Print median milliseconds of both and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=positive_count, default=200)
    parser.add_argument("--batch-size", type=positive_count, default=256)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = options.batch_size
    x, r, y = torch.randn(rows, 33), torch.randn(rows, 4), torch.randint(2, (rows,)).float()
    model = GCM(33, 4)
    program = conditional(model.model)
    bound = ImportanceWeightedELBO(N, max_plate_nesting=1)

    def through_pyro() -> Tensor:
        with unannounced(), pyro.validation_enabled(False):
            return bound.differentiable_loss(program, model.guide, x, r, y)

    sides = {"hand-written torch": lambda: by_hand(model, x, r, y), "pyro_gcm": through_pyro}
    optimizer = torch.optim.Adam(model.trained_parameters().values(), fused=True)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for step in range(options.steps + 10):
        for name, loss in sides.items():
            start = time.perf_counter()
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
            if step >= 10:
                seconds[name].append(time.perf_counter() - start)
    medians = {name: 1e3 * sorted(values)[len(values) // 2] for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"{name:20s} {median:7.2f} ms a step")
    print(f"ratio {medians['pyro_gcm'] / medians['hand-written torch']:.2f}")


if __name__ == "__main__":
    main()
