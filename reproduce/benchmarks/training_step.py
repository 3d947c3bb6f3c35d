"""One training step of GCM: plain and through Pyro, against the same loss written by hand in torch.

    python -m reproduce.benchmarks.training_step

Four sides take the same step in turn: "log form", the hand-written step that was the reference
before order events had a product form; "good", a hand-written step in product form with a gradient
of its own; and the bound by the reader of the story and by Pyro's handlers. All have the same
networks, the same optimiser (Adam, fused) and the same clipping of gradients.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyro
import torch
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.cli.errors import one_line
from pyro_gcm.inference import ImportanceWeightedELBO, unannounced
from pyro_gcm.inference.scored import Noise, Scored
from reproduce.arguments import a_path, check_output, positive_count
from reproduce.benchmarks.paired import paired, ratio, show
from reproduce.results import versions, write_csv

#: Sides that the others are set beside.
REFERENCES = ("by hand, log form", "by hand, good")


def log_form(model: GCM, particles: int, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
    """The importance-weighted bound with guide = prior, by logarithms of Phi."""
    z = model.z_prior(x).rsample((particles,))
    cost = model.cost_net(z).base_dist
    u = (r.double() - cost.loc) / cost.scale
    log_hit, log_miss = torch.special.log_ndtr(u), torch.special.log_ndtr(-u)
    before = torch.nn.functional.pad(log_hit.cumsum(-1)[..., :-1], (1, 0))
    log_p = torch.where(y > 0.5, log_hit.sum(-1), torch.logsumexp(before + log_miss, -1))
    return -(torch.logsumexp(log_p, 0) - math.log(particles)).sum()


class _Product(torch.autograd.Function):
    """Minus the sum over rows of the log of the mean over draws, [N, B, K] -> []."""

    @staticmethod
    def forward(ctx: Any, loc: Tensor, scale: Tensor, r: Tensor, y: Tensor) -> Tensor:
        inverse = scale.double().reciprocal_()
        u = (r - loc.double()).mul_(inverse)
        tail = u.abs().mul_(math.sqrt(0.5)).erfc_().mul_(0.5)
        above = (u >= 0.0).double()
        tail = torch.copysign(tail, u)
        up, down = above - tail, (1.0 - above).add_(tail)
        hit, miss = up.prod(-1), down[..., -1]
        for k in range(up.shape[-1] - 2, -1, -1):
            miss = torch.addcmul(down[..., k], up[..., k], miss)
        total = torch.lerp(miss, hit, y).sum(0)
        ctx.save_for_backward(u, inverse, up, hit, total, y)
        return total.log().sum().neg()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        u, inverse, up, hit, total, y = ctx.saved_tensors
        by_row = hit * ((1.0 - 2.0 * y) * grad_outputs[0] / math.sqrt(2.0 * math.pi) / total)
        by_u = u.square().mul_(-0.5).exp_().div_(up).mul_(by_row.unsqueeze(-1)).mul_(inverse)
        by_loc = by_u.neg_().float()
        return by_loc, by_loc * u.float(), None, None


def product_form(model: GCM, particles: int, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
    """The same bound, up to log N a row, by products of Phi; wrong where all of them underflow."""
    z = model.z_prior(x).rsample((particles,))
    cost = model.cost_net(z).base_dist
    loss: Tensor = _Product.apply(cost.loc, cost.scale, r.double(), y.double())
    return loss


def steps(
    rows: int, x_dim: int, r_dim: int, particles: int, hidden: int
) -> dict[str, Callable[[], None]]:
    """A training step by each of the sides, on made-up rows."""
    torch.manual_seed(0)
    x, r, y = torch.randn(rows, x_dim), torch.randn(rows, r_dim), torch.randint(2, (rows,)).float()
    model = GCM(x_dim, r_dim, hidden=hidden)
    pair, bound = model.training_pair(), ImportanceWeightedELBO(particles, max_plate_nesting=1)
    parameters = list(model.trained_parameters().values())
    optimizer = torch.optim.Adam(parameters, fused=True)

    def read() -> Tensor:
        return Scored(model, pair.plan, bound, Noise()).read(x, r, y).row_losses(rows).sum()

    losses: dict[str, Callable[[], Tensor]] = {
        "by hand, log form": partial(log_form, model, particles, x, r, y),
        "by hand, good": partial(product_form, model, particles, x, r, y),
        "reader": read,
        "Pyro's handlers": partial(bound.differentiable_loss, pair.program, pair.guide, x, r, y),
    }

    def step(loss: Callable[[], Tensor]) -> None:
        optimizer.zero_grad(set_to_none=True)
        with unannounced(), pyro.validation_enabled(False):
            found = loss()
        (found / rows).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 10.0)
        optimizer.step()

    return {name: partial(step, loss) for name, loss in losses.items()}


def table(seconds: Mapping[str, Sequence[float]], shared: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each side and reference: median milliseconds, and the ratio with its quartiles."""
    rows = []
    for reference in REFERENCES:
        for side, times in seconds.items():
            lower, median, upper = ratio(times, seconds[reference])
            found = {"side": side, "milliseconds": 1e3 * float(np.median(times))}
            beside = {"beside": reference, "ratio": median, "lower": lower, "upper": upper}
            rows.append({**shared, **found, **beside, "versions": versions()})
    return pd.DataFrame(rows)


def main() -> None:
    """Print median milliseconds of every side and its ratio to each of the hand-written ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=positive_count, default=200)
    parser.add_argument("--batch-size", type=positive_count, default=256)
    parser.add_argument("--particles", type=positive_count, default=32)
    parser.add_argument("--hidden", type=positive_count, nargs="+", default=[16, 128])
    parser.add_argument(
        "--output", type=a_path, help="folder of training_step.csv, if it is wanted"
    )
    options = parser.parse_args()
    if options.output is not None:  # before any work
        try:
            check_output(options.output)
        except OSError as error:
            parser.error(f"argument --output: {one_line(error)}")
    tables = []
    for hidden in options.hidden:
        print(f"\nhidden {hidden}, batch {options.batch_size}, particles {options.particles}")
        sides = steps(options.batch_size, 33, 4, options.particles, hidden)
        seconds = paired(sides, options.steps, warm_up=10)
        for reference in REFERENCES:
            show(seconds, reference)
        sizes = options.batch_size, options.particles, options.steps
        shared = dict(zip(("batch_size", "particles", "steps"), sizes, strict=True))
        tables.append(table(seconds, {"hidden": hidden, **shared}))
    if options.output is not None:
        write_csv(pd.concat(tables), options.output / "training_step.csv")


if __name__ == "__main__":
    main()
