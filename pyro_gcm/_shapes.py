"""Shapes that broadcast against each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pyro.distributions.util import broadcast_shape


def broadcast_shapes(*shapes: Sequence[int]) -> torch.Size:
    """The common shape, as of `torch.broadcast_shapes`, whose first call imports sympy (0.5 s).

    :raises ValueError: if the shapes do not broadcast.
    """
    return torch.Size(broadcast_shape(*shapes))
