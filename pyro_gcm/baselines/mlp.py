"""An MLP, the reference for the effect of monotonicity, and two penalties on it: Hint and PWL."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from pyro_gcm._utils.validation import one_of, positive
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.networks import OneStream


class MLP(Baseline):
    """Three-layer MLP of [x, r] with tanh activations (the architecture of the paper, section 4.1).

    :param hidden: width of both hidden layers.
    :param options: of `Baseline`: response.
    """

    def __init__(self, x_dim: int, r_dim: int, *, hidden: int = 16, **options: Any) -> None:
        super().__init__(x_dim, r_dim, **options)
        self.network = OneStream(x_dim, r_dim, hidden)


class Hint(MLP):
    """An MLP whose loss penalises violations of monotonicity at sampled pairs r <= r'.

        loss + weight * mean of relu(s(x, r) - s(x, r'))^2

    Here s is the score, which is the logit if y is binary. The pairs are drawn with torch's global
    generator.

    :param weight: weight of the penalty.
    :param max_shift: for pairs="shifted", the maximum of the uniform differences between the
        revenues of r' and r, in standard deviations.
    :param pairs: "shifted" compares r of each row with a point slightly above it, as in the paper's
        experiments. "comparable" covers the whole range of the data (Sill & Abu-Mostafa 1996): the
        pair is the coordinate-wise minimum and maximum of r of each row and of a random other row.
    :param options: options of `MLP`.
    """

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        weight: float = 1.0,
        max_shift: float = 0.1,
        pairs: Literal["shifted", "comparable"] = "shifted",
        **options: Any,
    ) -> None:
        super().__init__(x_dim, r_dim, **options)
        one_of("pairs", pairs, ["shifted", "comparable"])
        self.weight = positive("weight", weight)
        self.max_shift = positive("max_shift", max_shift)
        self.pairs = pairs

    def standard_loss(self, x: Tensor, r: Tensor, level: Tensor, y: Tensor) -> Tensor:
        """Mean loss for standardised x and r, with the penalty; see `Baseline.standard_loss`."""
        return super().standard_loss(x, r, level, y) + self.weight * self.penalty(x, r)

    def penalty(self, x: Tensor, r: Tensor) -> Tensor:
        """Mean squared violation for standardised x [B, x_dim] and r [B, r_dim], one pair a row."""
        if self.pairs == "shifted":
            lower, upper = r, r + self.max_shift * torch.rand_like(r)
        else:
            other = r[torch.randperm(len(r), device=r.device)]
            lower, upper = torch.minimum(r, other), torch.maximum(r, other)
        encoded = self.encode(x)
        # Both terms have shape [B]; with [B, 1] on one side the rows would be mixed.
        fall = self.decode(encoded, lower) - self.decode(encoded, upper)
        return torch.relu(fall).square().mean()


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
            r = r + 0.0 * self.network.output.bias
            if not r.requires_grad:  # nor is the bias
                r.requires_grad_()
            score = self.score(x, r)
            # Rows are independent, so the gradient of the sum contains the slopes of every row.
            (slopes,) = torch.autograd.grad(score, r, torch.ones_like(score), create_graph=True)
        return self.data_loss(score, level, y) + self.weight * torch.relu(-slopes).sum()
