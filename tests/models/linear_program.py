"""A GCM whose every density is known: linear Gaussian parts, and y by quadrature over z."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from pyro_gcm import GCM

A, SX = torch.tensor([1.0, -0.7, 0.5]), torch.tensor([0.6, 0.8, 1.0])  # x = A z + SX e
B = torch.tensor([[0.8, 0.3], [0.0, 0.7]])  # r = B w + C x + SR e
C, SR = torch.tensor([[0.3, 0.0, 0.2], [0.0, -0.4, 0.1]]), 0.5
MC, D, SC = torch.tensor([-0.3, -0.4]), torch.tensor([1.2, -0.8]), torch.tensor([0.7, 0.5])


def rows(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """x, r and y drawn from the program."""
    g = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    z = noise(count, 1)
    x = z * A + SX * noise(count, 3)
    r = noise(count, 2) @ B.T + x @ C.T + SR * noise(count, 2)
    c = MC + z * D + SC * noise(count, 2)
    return x, r, (c < r).all(-1).float()


def log_densities(x: Tensor, r: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """log p(x, r) and log p(y | x, r), float64."""
    a, sx, b, c, mc, d, sc, x, r = (t.double() for t in (A, SX, B, C, MC, D, SC, x, r))
    covariance = b @ b.T + SR**2 * torch.eye(2)
    precision = 1.0 + (a**2 / sx**2).sum()
    nodes, weights = (torch.tensor(t) for t in np.polynomial.hermite_e.hermegauss(80))
    z = (x @ (a / sx**2) / precision)[:, None] + nodes / precision.sqrt()  # [B, 80]
    log_x = MultivariateNormal(torch.zeros_like(a), a.outer(a) + torch.diag(sx**2)).log_prob(x)
    log_r = MultivariateNormal(x @ c.T, covariance).log_prob(r)
    u = (r[:, None] - mc - z[..., None] * d) / sc
    p = (torch.special.ndtr(u).prod(-1) * (weights / weights.sum())).sum(-1)
    return log_x + log_r, torch.where(y > 0.5, p.log(), torch.log1p(-p))


def model(**options: object) -> GCM:
    """A GCM with these densities; its guides are N(0, I), so that weights have to do the work."""
    gcm = GCM(3, 2, prior="standard", z_dim=1, hidden=(), **options).double()  # type: ignore[arg-type]
    parts = (
        (gcm.x_decoder, A[:, None], torch.zeros(3), SX),
        (gcm.r_decoder, torch.cat([B, C], 1), torch.zeros(2), torch.full((2,), SR)),
        (gcm.cost_net, D[:, None], MC, SC),
    )
    with torch.no_grad():
        for part, weight, bias, scale in parts:
            count = len(weight)
            linear = part.net[0]
            linear.weight.zero_()
            linear.weight[:count] = weight.double()
            linear.bias[:count] = bias.double()
            # `positive` is 0.05 + softplus(raw + log(expm1(0.95))).
            raw = torch.log(torch.expm1(scale.double() - 0.05)) - math.log(math.expm1(0.95))
            linear.bias[count:] = raw
        for guide in (gcm.z_guide, gcm.w_guide):
            for parameter in guide.parameters():  # type: ignore[union-attr]
                parameter.zero_()
    return gcm
