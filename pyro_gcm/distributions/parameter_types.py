"""Parameters of distributions: TypeError by name for what is no tensor, distribution or event."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.tensors import broadcast_shapes, check_dense
from pyro_gcm._utils.validation import kind


def tensors(**parameters: Any) -> None:
    """Check that each is a tensor, and dense."""
    for name, value in parameters.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a tensor, got {kind(value)}")
        check_dense(name, value)


def distributions(**parameters: Any) -> None:
    """Check that each is a distribution."""
    for name, value in parameters.items():
        if not isinstance(value, torch.distributions.Distribution):
            raise TypeError(f"{name} must be a distribution, got {kind(value)}")


def an_event(event: Any) -> None:
    """Check that it is an `OrderEvent`, by what one can do."""
    if not hasattr(event, "log_probs64"):
        raise TypeError(f"event must be an OrderEvent, got {kind(event)}")


def wider(distribution: Any, batch_shape: Any) -> torch.Size:
    """The batch shape to which a distribution is to be expanded.

    :raises ValueError: if its own does not broadcast to it.
    """
    own, wide = distribution.batch_shape, torch.Size(batch_shape)
    if broadcast_shapes(own, wide) != wide:
        raise ValueError(
            f"batch_shape must be one to which {tuple(own)} broadcasts, got {tuple(wide)}"
        )
    return wide
