"""Training and choice of the epoch behind the paper's Table 3, for several seeds at once.

The source is that of `reproduce.released_forms`; what it calls Adam is made anew in every step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from reproduce.released_costs import TEST_DRAWS
from reproduce.released_forms import Form, Parameters, Part, Sizes

Array = npt.NDArray[Any]
#: Of the gradient, elementwise; weight of the sum of squares of all parameters.
CLIP, L2 = 1.0, 1e-6
#: 1e-7 / sqrt(1 - 0.999), which the first step of an Adam adds to the absolute gradient.
SIGN_EPSILON = 1e-7 / math.sqrt(1e-3)
#: Numbers of a block of predictions.
_BLOCK = 2_000_000


class Stacked:
    """The parameters of one network for every seed, in one tensor [S, P].

    :param start: "released", uniform up to 12 / (rows + columns), or "fan-in", up to
        1 / sqrt(rows); vectors start at 0.
    """

    def __init__(self, sizes: Sizes, seeds: Sequence[int], start: str = "released") -> None:
        self.sizes = sizes
        self.counts = [math.prod(shape) for shape in sizes.values()]
        rows = [self._start(seed, start) for seed in seeds]
        self.theta = torch.stack(rows).requires_grad_()

    def _start(self, seed: int, start: str) -> Tensor:
        noise, parts = torch.Generator().manual_seed(seed), []
        for shape in self.sizes.values():
            part = torch.zeros(math.prod(shape))
            if len(shape) == 2:
                reach = 12.0 / sum(shape) if start == "released" else shape[0] ** -0.5
                part.uniform_(-reach, reach, generator=noise)
            parts.append(part)
        return torch.cat(parts)

    def views(self) -> Parameters:
        """Name -> parameter, [S, rows, columns] or [S, 1, size]."""
        parts = self.theta.split(self.counts, 1)
        return {
            name: part.reshape(len(part), *(shape if len(shape) == 2 else (1, *shape)))
            for (name, shape), part in zip(self.sizes.items(), parts, strict=True)
        }


class Updates:
    """How a step changes the parameters: "signs", "sgd" or "adam".

    "signs" is what a new Adam does in its first step, the sign of the clipped gradient; "adam"
    keeps its moments; "sgd" does not clip.
    """

    def __init__(self, kind: str, theta: Tensor) -> None:
        self.kind = kind
        self.adam = torch.optim.Adam([theta], lr=0.0, eps=1e-7) if kind == "adam" else None

    @torch.no_grad()
    def __call__(self, theta: Tensor, gradient: Tensor, rate: float) -> None:
        if self.kind == "sgd":
            theta -= rate * gradient
            return
        gradient = gradient.clamp(-CLIP, CLIP)
        if self.adam is None:
            theta -= rate * gradient / (gradient.abs() + SIGN_EPSILON)
            return
        theta.grad, self.adam.param_groups[0]["lr"] = gradient, rate
        self.adam.step()
        theta.grad = None


def train(
    form: Form, learn: Part, shown: Part, seeds: Sequence[int], settings: Mapping[str, Any]
) -> Iterator[Tensor]:
    """Predictions [S, n] of the rows `shown` after each epoch.

    :param settings: epochs, batch_size, learning_rate, decay, optimiser and start.
    :raises FloatingPointError: if the parameters of a seed are not finite after an epoch.
    """
    stacked = Stacked(form.sizes(), seeds, settings["start"])
    theta, update = stacked.theta, Updates(settings["optimiser"], stacked.theta)
    noise = torch.Generator().manual_seed(seeds[0])
    draws = _test_noise(form, seeds)
    rate, size = settings["learning_rate"], settings["batch_size"]
    orders = [_Orders(seed, len(learn)) for seed in seeds]
    for epoch in range(1, settings["epochs"] + 1):
        rate *= settings["decay"]
        order = torch.stack([each.next(epoch) for each in orders])
        for rows in order.split(size, 1):
            loss = form.loss(stacked.views(), learn.x[rows], learn.r[rows], learn.y[rows], noise)
            (gradient,) = torch.autograd.grad(loss.sum(), theta)
            update(theta, gradient + 2.0 * L2 * theta.detach(), rate)
        if not theta.isfinite().all():
            raise FloatingPointError(f"a parameter is not finite after epoch {epoch}")
        yield predictions(form, stacked.views(), shown, draws)


class _Orders:
    """The order of the training rows of a seed: shuffled in every epoch, on top of the last."""

    def __init__(self, seed: int, rows: int) -> None:
        self.seed, self.index, self.order = seed, np.arange(rows), np.arange(rows)

    def next(self, epoch: int) -> Tensor:
        np.random.RandomState(self.seed + 1000 * epoch).shuffle(self.index)
        self.order = self.order[self.index]
        return torch.from_numpy(self.order)


def _test_noise(form: Form, seeds: Sequence[int]) -> Tensor:
    """Standard normal draws that all rows share, [S, 1, N, D], or nothing."""
    size = form.options.get("z_dim", 0)
    made = [torch.Generator().manual_seed(seed + 77_777) for seed in seeds]
    return torch.stack([torch.randn(1, TEST_DRAWS, size, generator=each) for each in made])


@torch.no_grad()
def predictions(form: Form, p: Parameters, rows: Part, draws: Tensor) -> Tensor:
    """Predictions [S, n], by blocks of rows."""
    drawn = draws.shape[2] if draws.shape[3] else 1
    block = max(1, _BLOCK // (len(draws) * drawn * form.hidden))
    parts = zip(rows.x.split(block), rows.r.split(block), strict=True)
    return torch.cat([form.predict(p, x, r, draws) for x, r in parts], 1)


def scores(prediction: Tensor, y: Tensor, binary: bool) -> list[dict[str, float]]:
    """AUC and accuracy, or RMSE, of predictions [S, n] for every seed."""
    found, truth = prediction.double().numpy(), y.double().numpy()
    if not binary:
        return [{"RMSE": float(np.sqrt(np.square(row - truth).mean()))} for row in found]
    return [
        {
            "AUC": float(roc_auc_score(truth, row)),
            "accuracy": float(((row >= 0.5) == truth).mean()),
        }
        for row in found
    ]
