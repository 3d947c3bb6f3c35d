"""Whether two samplers agree: Kolmogorov-Smirnov on every coordinate and on their joint shape."""

from __future__ import annotations

import torch
from scipy.stats import ks_2samp
from torch import Tensor

#: The p-value, corrected for the number of comparisons, below which two samplers differ.
DIFFERENT = 1e-4


def agreement(draws: Tensor, others: Tensor) -> float:
    """Corrected p-value for draws [S, ...] and [T, ...] being of one distribution.

    Beside the coordinates, their sum, smallest and largest are compared: samplers with the right
    margins and a wrong dependence differ there (most of all if the draws are distances to the
    revenue, whose signs make the event).
    """
    p_values = [
        ks_2samp(a.numpy(), b.numpy(), method="asymp").pvalue
        for a, b in zip(_features(draws), _features(others), strict=True)
    ]
    return min(1.0, min(p_values) * len(p_values))


def _features(draws: Tensor) -> list[Tensor]:
    flat = draws.flatten(1)
    return [*flat.T, flat.sum(1), flat.amin(1), flat.amax(1)]


def shuffled(draws: Tensor) -> Tensor:
    """The draws with every coordinate permuted by itself: right margins, no dependence."""
    flat = draws.flatten(1)
    mixed = [column[torch.randperm(len(column))] for column in flat.T]
    return torch.stack(mixed, 1).reshape(draws.shape)
