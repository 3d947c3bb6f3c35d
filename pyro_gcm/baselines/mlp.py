"""A perceptron without any constraint: what monotonicity costs or brings is measured against it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def pinball_loss(prediction: Tensor, level: Tensor, y: Tensor) -> Tensor:
    """Mean of rho_level(y - prediction) (paper, section 4.1); all of shape [B]."""
    error = y - prediction
    return torch.maximum(level * error, (level - 1.0) * error).mean()


class MLP(nn.Module):
    """Three-layer tanh perceptron of [x, r] (the shared architecture of the paper's section 4.1).

    :param x_dim: number of covariates.
    :param r_dim: number of revenues.
    :param hidden: width of both hidden layers.
    """

    def __init__(self, x_dim: int, r_dim: int, *, hidden: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(x_dim + r_dim, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        """Prediction [B] for x [B, x_dim] and r [B, r_dim]."""
        out: Tensor = self.net(torch.cat([x, r], dim=-1))
        return out.squeeze(-1)

    def loss(
        self, x: Tensor, r: Tensor, y: Tensor, criterion: Callable[..., Tensor] = pinball_loss
    ) -> Tensor:
        """Mean loss of a batch; the default takes r[:, 0] as the quantile level."""
        return criterion(self(x, r), r[:, 0], y)

    @torch.no_grad()
    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """Prediction [B]."""
        return self(x, r)
