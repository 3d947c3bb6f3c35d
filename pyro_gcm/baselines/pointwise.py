"""PWL: an MLP with a monotonicity penalty on its slopes at the data (Gupta et al. 2019)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.validation import positive
from pyro_gcm.baselines.mlp import MLP


class PWL(MLP):
    """An MLP whose loss includes the pointwise loss of Gupta et al. (2019).

        loss + weight * sum over rows and revenues of relu(-ds/dr_m)

    Here s is the score, which is the logit if y is binary, and r is standardised. As in the paper,
    the loss of the data is a mean and the penalty a sum, so the penalty grows with the batch size:
    a weight of 0.01 with batches of 256 corresponds to 2.56 on the mean over rows. To compare
    batch sizes, keep weight * batch_size constant.

    :param weight: weight of the penalty.
    :param options: options of `MLP`.
    """

    def __init__(self, x_dim: int, r_dim: int, *, weight: float = 0.01, **options: Any) -> None:
        super().__init__(x_dim, r_dim, **options)
        self.weight = positive("weight", weight)

    def standard_loss(self, x: Tensor, r: Tensor, level: Tensor, y: Tensor) -> Tensor:
        """Mean loss for standardised x and r, with the penalty; see `Baseline.standard_loss`."""
        with torch.enable_grad():
            # Differentiable, also where `torch.func` maps the loss, which forbids `requires_grad_`.
            r = r + 0.0 * self.output.bias
            if not r.requires_grad:  # nor is the bias
                r.requires_grad_()
            score = self.score(x, r)
            # Rows are independent, so the gradient of the sum contains the slopes of every row.
            (slopes,) = torch.autograd.grad(score, r, torch.ones_like(score), create_graph=True)
        return self.data_loss(score, level, y) + self.weight * torch.relu(-slopes).sum()
