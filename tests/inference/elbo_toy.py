"""A toy with two guide sites, and its weights by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

FULL, ROWS, DIM, N = 60, 6, 2, 5
DTYPE = torch.float64

counts = pytest.mark.parametrize("num_particles", [1, N], ids=lambda n: f"N={n}")


def normal(value: Tensor, loc: Any, scale: Any) -> Tensor:
    """log N(value; loc, scale)."""
    scale = torch.as_tensor(scale, dtype=DTYPE)
    return -0.5 * ((value - loc) / scale) ** 2 - scale.log() - 0.5 * math.log(2.0 * math.pi)


def whole() -> Any:
    return pyro.plate("data", FULL)


def random_rows() -> Any:
    return pyro.plate("data", FULL, subsample_size=ROWS)


def given_rows() -> Any:
    return pyro.plate("data", FULL, subsample=torch.arange(0, FULL, FULL // ROWS))


class Toy:
    """z ~ N(a x, I), u ~ N(z1 z2, 1), y ~ N(sum z + u, s^2), in a mini-batch or for all rows.

    Guide: z ~ N(b x + y, t^2) and u ~ N(d y, 0.7^2), independent of z. Keeps its draws.
    """

    def __init__(self, plate: Callable[[], Any] = random_rows) -> None:
        g = torch.Generator().manual_seed(3)
        self.rows = plate
        self.x = torch.randn(FULL, DIM, generator=g, dtype=DTYPE)
        self.y = torch.randn(FULL, generator=g, dtype=DTYPE)
        self.theta = [torch.tensor(v, dtype=DTYPE, requires_grad=True) for v in (0.7, -0.2)]
        self.phi = [torch.tensor(v, dtype=DTYPE, requires_grad=True) for v in (0.4, -0.3, 0.2)]
        self.drawn: list[tuple[Tensor, Tensor, Tensor]] = []

    def model(self) -> None:
        a, log_s = self.theta
        with self.rows() as index:
            z = pyro.sample("z", dist.Normal(a * self.x[index], 1.0).to_event(1))
            u = pyro.sample("u", dist.Normal(z.prod(-1), 1.0))
            pyro.sample("y", dist.Normal(z.sum(-1) + u, log_s.exp()), obs=self.y[index])

    def guide(self) -> None:
        with self.rows() as index:
            (z_loc, t), (u_loc, s) = self.q(index, self.phi)
            z = pyro.sample("z", dist.Normal(z_loc, t).to_event(1))
            self.drawn.append((index, z, pyro.sample("u", dist.Normal(u_loc, s))))

    def q(self, index: Tensor, phi: list[Tensor]) -> Any:
        b, log_t, d = phi
        x, y = self.x[index], self.y[index]
        return (b * x + y[:, None], log_t.exp()), (d * y, torch.tensor(0.7, dtype=DTYPE))

    def draws(self) -> tuple[Tensor, Tensor, Tensor]:
        """The rows [B], and the draws z [N, B, D] and u [N, B] of the guide."""
        index = self.drawn[0][0]
        # A column of weights belongs to one row: every particle has the rows of the first.
        assert all(torch.equal(rows, index) for rows, _, _ in self.drawn)
        z = torch.cat([z.detach().reshape(-1, len(index), DIM) for _, z, _ in self.drawn])
        return index, z, torch.cat([u.detach().reshape(-1, len(index)) for _, _, u in self.drawn])

    def log_w(self, index: Tensor, z: Tensor, u: Tensor, q: Any) -> Tensor:
        """log w [N, B] of draws, given the parameters of the guide."""
        a, log_s = self.theta
        return (
            normal(z, a * self.x[index], 1.0).sum(-1)
            + normal(u, z.prod(-1), 1.0)
            + normal(self.y[index], z.sum(-1) + u, log_s.exp())
            - normal(z, *q[0]).sum(-1)
            - normal(u, *q[1])
        )

    def log_weights(self) -> Tensor:
        """log w [N, B] of the guide's draws, each a function of the parameters once more."""
        index, *draws = self.draws()
        q = self.q(index, self.phi)
        again = [
            loc + scale * ((value - loc) / scale).detach()
            for value, (loc, scale) in zip(draws, q, strict=True)
        ]
        return self.log_w(index, *again, q)
