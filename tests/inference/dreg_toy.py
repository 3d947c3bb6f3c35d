"""A toy with two guide sites and its doubly reparametrised gradient, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

from pyro_gcm.inference import ImportanceWeightedELBO

FULL, ROWS, DIM, N = 60, 6, 2, 5
DTYPE = torch.float64

loops = pytest.mark.parametrize("vectorized", [True, False], ids=["vectorised", "looped"])
counts = pytest.mark.parametrize("num_particles", [1, N], ids=lambda n: f"N={n}")


def bound(gradient: str = "dreg", num_particles: int = N, **options: Any) -> ImportanceWeightedELBO:
    options = {"max_plate_nesting": 1, **options}
    return ImportanceWeightedELBO(num_particles, gradient=gradient, **options)


def normal(value: Tensor, loc: Any, scale: Any) -> Tensor:
    """log N(value; loc, scale)."""
    scale = torch.as_tensor(scale, dtype=DTYPE)
    return -0.5 * ((value - loc) / scale) ** 2 - scale.log() - 0.5 * math.log(2.0 * math.pi)


class Toy:
    """z ~ N(a x, I), u ~ N(z1 z2, 1), y ~ N(sum z + u, s^2) in a mini-batch of 6 rows out of 60.

    Guide: z ~ N(b x + y, t^2) and u ~ N(d y, 0.7^2), independent of z. Keeps its draws.
    """

    def __init__(self) -> None:
        g = torch.Generator().manual_seed(3)
        self.x = torch.randn(FULL, DIM, generator=g, dtype=DTYPE)
        self.y = torch.randn(FULL, generator=g, dtype=DTYPE)
        self.theta = [torch.tensor(v, dtype=DTYPE, requires_grad=True) for v in (0.7, -0.2)]
        self.phi = [torch.tensor(v, dtype=DTYPE, requires_grad=True) for v in (0.4, -0.3, 0.2)]
        self.drawn: list[tuple[Tensor, Tensor, Tensor]] = []

    def rows(self) -> Any:
        return pyro.plate("data", FULL, subsample_size=ROWS)

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
        return (b * x + y[:, None], log_t.exp()), (d * y, 0.7)

    def gradients(self) -> list[Tensor]:
        """Of the loss in theta and phi, by Tucker et al. (2019), equation (8), draw by draw."""
        index = self.drawn[0][0]
        z = torch.cat([z.detach().reshape(-1, ROWS, DIM) for _, z, _ in self.drawn])  # [N, B, D]
        u = torch.cat([u.detach().reshape(-1, ROWS) for _, _, u in self.drawn])  # [N, B]
        z.requires_grad_()
        u.requires_grad_()
        fixed = [p.detach() for p in self.phi]
        (z_loc, t), (u_loc, s) = self.q(index, fixed)
        a, log_s = self.theta
        log_w = (
            normal(z, a * self.x[index], 1.0).sum(-1)
            + normal(u, z.prod(-1), 1.0)
            + normal(self.y[index], z.sum(-1) + u, log_s.exp())
            - normal(z, z_loc, t).sum(-1)
            - normal(u, u_loc, s)
        )
        w = log_w.softmax(0).detach()
        dz, du = torch.autograd.grad(log_w.sum(), [z, u], retain_graph=True)
        of_theta = torch.autograd.grad((w * log_w).sum(), self.theta)
        # The draws as functions of phi once more.
        e_z, e_u = ((z - z_loc) / t).detach(), ((u - u_loc) / s).detach()
        (z_loc, t), (u_loc, s) = self.q(index, self.phi)
        path = (dz * (z_loc + t * e_z)).sum(-1) + du * (u_loc + s * e_u)
        of_phi = torch.autograd.grad((w**2 * path).sum(), self.phi)
        return [-FULL / ROWS * g for g in (*of_theta, *of_phi)]
