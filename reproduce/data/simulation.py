"""The simulated data of the paper's section 4.1, equation (qt_example)."""

from __future__ import annotations

import torch
from torch import Tensor

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
X_RANGE = (-1.5, 1.5)


def median(x: Tensor) -> Tensor:
    """Median of y given x."""
    return 0.3 * torch.sin(2 * (x + 0.8)) + 0.4 * torch.sin(3 * (x - 1.3)) + 0.3 * torch.sin(5 * x)


def spread(x: Tensor) -> Tensor:
    """Standard deviation of y given x."""
    return 0.2 * (0.8 * x**2 + 0.6)


def quantile(x: Tensor, level: float) -> Tensor:
    """The true quantile curve at a level."""
    return median(x) + spread(x) * torch.special.ndtri(torch.tensor(level, dtype=x.dtype))


def covariate(rows: int, generator: torch.Generator) -> Tensor:
    """x ~ U(-1.5, 1.5), [rows]."""
    low, high = X_RANGE
    return low + (high - low) * torch.rand(rows, generator=generator)


def sample(rows: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Training rows x [rows, 1], level r ~ U(0, 1) [rows, 1] and y [rows]."""
    generator = torch.Generator().manual_seed(seed)
    x = covariate(rows, generator)
    y = median(x) + spread(x) * torch.randn(rows, generator=generator)
    smallest = 2.0**-25  # torch.rand can return 0, which is no level
    level = torch.rand(rows, generator=generator).clamp(min=smallest)
    return x.unsqueeze(-1), level.unsqueeze(-1), y
