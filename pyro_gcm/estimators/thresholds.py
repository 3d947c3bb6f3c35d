"""Where a prediction reaches a level as one constrained column moves, in units of the column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm.estimators.encoding import ColumnEncoding

Array = npt.NDArray[np.float64]
#: Predictions [n] for values [n] of one column, in its own units, all else fixed.
OfColumn = Callable[[Array], Array]
#: Predictions [n] for x [n, d] and r [n, m], as an encoding returns them.
OfRows = Callable[..., Array]
#: Halvings of the range of the training rows.
_HALVINGS = 20
#: Doublings of the step back from a level that has been reached.
_STEPS_BACK = 64


def first_reaching(function: OfColumn, levels: Array, code: ColumnEncoding) -> Array:
    """The value at which the prediction has just reached its level, [n].

    That is the smallest value of an increasing column, and the largest of a decreasing one. It is
    infinite where the level is reached wherever one looks (on the low side of the prediction), or
    nowhere (on the high side).

    :param levels: of each row, [n].
    """
    target = torch.from_numpy(levels)

    def above(turned: Tensor) -> Tensor:
        return torch.from_numpy(function(code.sign * turned.numpy())) - target

    loc = torch.full_like(target, code.sign * code.loc)
    found = smallest_reaching(above, 0.0, loc, torch.full_like(target, code.scale))
    return code.sign * found.numpy()


def first_between(function: OfColumn, levels: Array, code: ColumnEncoding) -> Array:
    """`first_reaching` among the values of the training rows, to a millionth of their range.

    Infinite, on either side, where it is not among them.
    """
    low, high = (np.full(len(levels), end) for end in (code.low, code.high)[:: code.sign])
    always, never = function(low) >= levels, function(high) < levels
    for _ in range(_HALVINGS):
        middle = low + 0.5 * (high - low)
        reached = function(middle) >= levels
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    high[always], high[never] = -code.sign * np.inf, code.sign * np.inf
    return high


def last_below(function: OfColumn, levels: Array, code: ColumnEncoding) -> Array:
    """A value at which the prediction is still below its level, as close as can be told, [n]."""
    found = first_reaching(function, levels, code)
    finite = np.isfinite(found)
    start = np.where(finite, found, code.loc)
    step = np.maximum(np.spacing(np.abs(start)), 2.0**-58 * code.scale)
    for _ in range(_STEPS_BACK):
        back = start - code.sign * step
        reached = finite & (function(back) >= levels)
        if not reached.any():
            break
        step = np.where(reached, 2.0 * step, step)
    return np.where(finite, back, found)
