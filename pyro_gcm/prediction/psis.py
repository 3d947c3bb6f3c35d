"""How far importance weights can be relied on: effective sample size and Pareto shape."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import exclusively
from pyro_gcm._utils.validation import ArrayLike, as_tensor

#: Fewer have less than six draws in the tail, and ArviZ 1.x fits nothing to five.
MIN_PARTICLES = 30


def pareto_k(log_weights: ArrayLike) -> Tensor:
    """Pareto shape k of the importance weights of every datum.

    A generalised Pareto distribution is fitted to the largest weights, min(N / 5, 3 sqrt(N)) of N.
    Weights have 1/k finite moments: below 0.5 their variance is finite, up to 0.7 importance
    sampling still works with a few thousand draws, above it its averages are not to be relied on.
    A small k is necessary, not sufficient: draws that never reached a mode cannot tell of it. The
    two lines of ArviZ cut the tail one draw apart, so that their k differs by a few hundredths.

    Source: Vehtari et al. (2024), "Pareto smoothed importance sampling"; the fit is ArviZ's.

    :param log_weights: [N, B], N >= 30 draws for each of B data; -inf is a weight of 0.
    :returns: [B]. -inf where the weights in the tail are equal up to rounding, so that they are
        bounded; inf where there is nothing to fit: where fewer draws than the tail has weigh
        anything, or its lower part is tied.
    :raises ValueError: for another shape, fewer draws, NaN, or a weight of +inf.

    >>> light, heavy = (torch.linspace(0.001, 0.999, 999).log() * -k for k in (0.2, 1.5))
    >>> pareto_k(torch.stack([light, heavy, torch.zeros(999)], dim=1)) > 0.7
    tensor([False,  True, False])
    """
    log_weights = as_tensor("log_weights", log_weights)
    relative = _relative_to_largest(log_weights)
    particles = len(relative)
    if particles < MIN_PARTICLES:
        raise ValueError(
            f"log_weights must have at least {MIN_PARTICLES} draws a datum for a Pareto fit, got "
            f"{particles}"
        )
    tail = min(particles / 5, 3 * particles**0.5)  # the lines of ArviZ round it down or up
    ordered = relative.T.topk(math.ceil(tail) + 1).values.T
    equal = ordered[math.floor(tail) - 1] >= -(torch.finfo(log_weights.dtype).eps ** 0.5)
    # Below the smallest float a weight is 0 in the fit.
    enough = ordered[math.ceil(tail)] > math.log(np.finfo(np.float64).tiny)
    k = torch.full_like(relative[0], math.inf)
    k[equal] = -math.inf
    fitted = enough & ~equal
    if fitted.any():
        shapes = _fitted_shapes(relative[:, fitted].T.cpu().numpy())
        k[fitted] = torch.from_numpy(np.where(np.isnan(shapes), math.inf, shapes)).to(k)
    return k.to(log_weights.dtype)


def effective_sample_size(log_weights: ArrayLike) -> Tensor:
    """Kish's effective sample size, 1 / sum of the squared normalised weights, of every datum.

    From 1, where one draw has all the weight, to N, where they are equal.

    :param log_weights: [N, B]; -inf is a weight of 0.
    :returns: [B]; 0 where all weights are 0.
    :raises ValueError: for another shape, NaN, or a weight of +inf.

    >>> effective_sample_size(torch.tensor([[0.0, 0.0], [0.0, -torch.inf]]))
    tensor([2., 1.])
    """
    log_weights = as_tensor("log_weights", log_weights)
    weights = _relative_to_largest(log_weights).exp()
    ess = weights.sum(0).square() / weights.square().sum(0)
    return ess.nan_to_num(nan=0.0).to(log_weights.dtype)


def _relative_to_largest(tensor: Tensor) -> Tensor:
    """Checked log-weights in float64 whose largest is 0 for every datum; -inf stays."""
    if tensor.dim() != 2 or tensor.numel() == 0:
        raise ValueError(
            "log_weights must have shape [draws, data], at least one of each, got shape "
            f"{tuple(tensor.shape)}"
        )
    bad = tensor.isnan() | (tensor == math.inf)
    if bad.any():
        datum = int(bad.any(0).nonzero()[0, 0])
        raise ValueError(
            f"log_weights must be finite or -inf, got {int(bad.sum())} NaN or +inf entries, the "
            f"first in datum {datum}"
        )
    tensor = tensor.double()
    largest = tensor.amax(0).clamp(min=torch.finfo(tensor.dtype).min)  # where all weights are 0
    return tensor - largest


def _fitted_shapes(log_weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """k of every row of log-weights [B, N], by either line of ArviZ; NaN where a fit fails."""
    try:
        statistics: Any = import_module("arviz_stats.base").array_stats  # 1.x
        # Takes log-likelihoods, which the log-ratios of leave-one-out are the negatives of.
        log_weights = -log_weights
    except ModuleNotFoundError:
        statistics = imported_arviz()  # 0.23
    with np.errstate(all="ignore"):
        _, shapes = statistics.psislw(log_weights)
    return np.asarray(shapes, dtype=np.float64)


def imported_arviz() -> Any:
    """ArviZ, wherever it is imported for the first time.

    ArviZ 0.23 notes in the user's cache that it has announced 1.x today. Its import fails where
    another process writes that note at the same moment (ArviZ issue 2583), and where nothing can
    be written there, as in many containers. Then it gets another folder for its note.
    """
    with exclusively(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return import_module("arviz")
        except OSError:
            before = os.environ.copy()
            with tempfile.TemporaryDirectory() as folder:
                os.environ["XDG_CACHE_HOME"] = folder
                try:
                    return import_module("arviz")
                finally:
                    os.environ.pop("XDG_CACHE_HOME")
                    os.environ.update(before)
