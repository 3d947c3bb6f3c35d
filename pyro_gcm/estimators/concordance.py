"""Harrell's concordance of risks with times that may be right-censored."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class NoPairs(ValueError):
    """No two rows can be compared."""


def harrell_concordance(
    time: Array, event: npt.NDArray[np.bool_], risk: Array, weight: Array | None = None
) -> float:
    """The share of comparable pairs of rows in which the higher risk had the earlier event.

    A pair is comparable if the event of one row came before the time of the other, or at the same
    time if the other was censored then. Equal risks count half (Harrell et al. 1996).

    :param time: of the event or of censoring, [n].
    :param event: whether the event came, [n].
    :param risk: [n].
    :param weight: of the rows, [n]; a pair has the product of theirs.
    :raises NoPairs: if no pair is comparable.
    """
    weight = np.ones(len(time)) if weight is None else weight
    right = total = 0.0
    for row in np.flatnonzero(event):
        later = (time > time[row]) | ((time == time[row]) & ~event)
        ahead = risk[row] - risk[later]
        of_pairs = weight[row] * weight[later]
        right += float(of_pairs @ ((ahead > 0.0) + 0.5 * (ahead == 0.0)))
        total += float(of_pairs.sum())
    if total == 0.0:
        raise NoPairs("y must have a row whose event came before the time of another row")
    return right / total
