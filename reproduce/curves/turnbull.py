"""The nonparametric maximum-likelihood estimate of a survival curve from censored times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def turnbull(lower: Array, upper: Array, tolerance: float = 1e-7, steps: int = 5000) -> Any:
    """Turnbull's self-consistent estimate, by the EM algorithm (Turnbull 1976).

    An event came after `lower` and not after `upper`, or at that time where both are the same. The
    mass lies in the intervals from an end on the left to the next end on the right; inside of one
    it is put at its right end, or for the last one, which is open, nowhere.

    :param lower: [n], at least 0; `upper`: [n], inf for right-censored times.
    :param tolerance: largest change of a mass at which the iteration stops.
    :returns: a function from times to Pr(T > t).
    """
    before_exact = np.where(lower == upper, np.nextafter(lower, -np.inf), lower)
    lefts, rights = np.unique(before_exact), np.unique(upper)
    following = rights[np.searchsorted(rights, lefts, side="right")]
    # The innermost intervals: no other left end before the right one.
    after = np.append(lefts[1:], np.inf)
    innermost = following <= after
    left, right = lefts[innermost], following[innermost]
    inside = (before_exact[:, None] <= left) & (right <= upper[:, None])
    inside = inside.astype(np.float64)
    mass = np.full(len(left), 1.0 / len(left))
    for _ in range(steps):
        new = mass * (inside.T @ (1.0 / (inside @ mass))) / len(lower)
        done = np.abs(new - mass).max() < tolerance
        mass = new
        if done:
            break

    def survival(times: Array) -> Array:
        found: Array = 1.0 - (mass * (right <= np.asarray(times)[..., None])).sum(-1)
        return found

    return survival
