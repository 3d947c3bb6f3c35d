"""Every kind of work on a GPU beside the same on the CPU, by the clock on the wall.

    python -m reproduce.benchmarks.gpu

It prints a table for `reproduce/benchmarks/README.md`: a fit, `predict`, `surface`, posterior draws
and `required_revenue` of a GCM, the same of members, and whether the predictions agree. Sizes are
those at which a GPU has something to do. The row of a GPU in the paper's Table 8 comes from
`python -m reproduce timing --device cuda`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyro_gcm import GCM, fit
from reproduce.arguments import positive_count, torch_device
from reproduce.benchmarks.paired import paired, show

#: Rows of posterior draws, and of `required_revenue`.
_ROWS_ASKED = 256


def rows(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Covariates, revenues and outcomes of random rows."""
    noise = torch.Generator().manual_seed(0)
    x = torch.randn(count, 33, generator=noise)
    r = torch.randn(count, 4, generator=noise)
    cost = 0.7 * x[:, :4] - 1.2 + 0.6 * torch.randn(count, 4, generator=noise)
    return x, r, (cost < r).all(-1).float()


def work(model: GCM, device: str, options: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Calls on a device, by name; each ends when its result is there."""
    x, r, y = (part.to(device) for part in rows(options.rows))
    few, others = slice(_ROWS_ASKED), r[0].clone()
    others[0] = torch.nan  # the revenue that is searched for
    common: Any = {"batch_size": options.batch, "device": device, "progress": False}
    calls: dict[str, Callable[[], Any]] = {
        "fit, an epoch": partial(fit, model, x, r, y, epochs=1, **common),
        "predict": partial(model.predict, x, r),
        "surface": partial(model.surface, x[: options.revenues], r[: options.revenues]),
        "posterior": partial(
            model.posterior, x[few], r[few], y[few], num_samples=options.draws, progress=False
        ),
        "required_revenue": partial(model.required_revenue, x[few], 0.3, r=others),
    }
    return {name: partial(_awaited, call, device) for name, call in calls.items()}


def _awaited(call: Callable[[], Any], device: str) -> Any:
    found = call()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return found


def largest_difference(ours: GCM, theirs: GCM, device: str) -> float:
    """Between the predictions of two models with the same weights, one on each device."""
    theirs.load_state_dict(ours.state_dict())
    x, r, _ = rows(1000)
    on_device = theirs.to(device).predict(x.to(device), r.to(device)).cpu()
    return float((ours.predict(x, r) - on_device).abs().max())


def main() -> None:
    """Print milliseconds on both devices and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", type=torch_device, default="cuda")
    parser.add_argument("--rows", type=positive_count, default=100_000)
    parser.add_argument("--batch", type=positive_count, default=4096)
    parser.add_argument("--revenues", type=positive_count, default=2048)
    parser.add_argument("--draws", type=positive_count, default=500)
    parser.add_argument("--repeats", type=positive_count, default=5)
    options = parser.parse_args()
    name = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    print(f"torch {torch.__version__}, {name}")
    for prior in ("conditional", "members"):
        models = [GCM(33, 4, prior=prior) for _ in range(2)]
        here, there = (
            work(model, device, options)
            for model, device in zip(models, ("cpu", options.device), strict=True)
        )
        for what in here:
            print(f"\nprior={prior!r}, {what}")
            sides = {"CPU": here[what], name: there[what]}
            show(paired(sides, options.repeats, warm_up=1, clock=time.perf_counter), "CPU")
        difference = largest_difference(models[0].cpu(), models[1], options.device)
        print(f"\nlargest difference of 1,000 predictions: {difference:.1e}")


if __name__ == "__main__":
    main()
