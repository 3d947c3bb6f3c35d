"""Standardisation as part of a model, so that inputs are passed in raw units."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pyro_gcm._recipe import recorded
from pyro_gcm._validation import row_blocks


@recorded("nets.Standardizer")
class Standardizer(nn.Module):
    """The map (value - loc) / scale of each column, with loc and scale as buffers.

    It is the identity until `learn` is called. The scale is positive, so the order of revenues is
    preserved. Values in float64 are standardised before they are rounded to the dtype of the
    model, so that a column far from 0 does not lose precision.

    :param dim: number of columns.
    """

    loc: Tensor
    scale: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("loc", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def learn(self, values: Tensor) -> None:
        """Set loc and scale to the mean and standard deviation of rows [n, dim].

        A constant column gets scale 1. NaN marks a missing value, which is ignored.
        """
        # In blocks of rows, so that there is never a copy of all of them in float64.
        zero = torch.zeros(values.shape[1:], dtype=torch.float64, device=values.device)
        count, total, squares, largest = zero.clone(), zero.clone(), zero.clone(), zero
        for rows in row_blocks(values):
            count += (~rows.isnan()).sum(0)
            total += rows.double().nansum(0)
            largest = torch.maximum(largest, rows.double().nan_to_num().abs().amax(0))
        loc = total / count
        for rows in row_blocks(values):
            squares += (rows.double() - loc).square().nansum(0)
        scale = (squares / count).sqrt()
        # Through rounding, the computed scale of a constant column is a few ulps of its values.
        constant = scale <= 1e-12 * largest
        self.loc.copy_(loc)
        self.scale.copy_(torch.where(constant, 1.0, scale))

    def forward(self, values: Tensor) -> Tensor:
        """Standardised values [..., dim], in the dtype of the model."""
        return ((values - self.loc) / self.scale).to(self.loc.dtype)

    def inverse(self, standard: Tensor) -> Tensor:
        """Values [..., dim] in the units of the data."""
        return standard * self.scale + self.loc
