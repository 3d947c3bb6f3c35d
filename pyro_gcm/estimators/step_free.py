"""Curves over time that can be called, as scikit-survival's step functions, but without steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class TimeCurve:
    """A function of time for one row: exact at its times and linear between them.

    :param x: times, rising, [T].
    :param y: values at the times, [T].
    :param start: value at time 0.
    """

    def __init__(self, x: Array, y: Array, start: float) -> None:
        self.x, self.y, self.start = x, y, start

    @property
    def domain(self) -> tuple[float, float]:
        """The times between which it can be called."""
        return 0.0, float(self.x[-1])

    def __call__(self, time: Any) -> Any:
        """Values at times of any shape.

        :raises ValueError: for times outside of `domain`.
        """
        at = np.asarray(time, dtype=np.float64)
        low, high = self.domain
        if not ((at >= low) & (at <= high)).all():
            raise ValueError(
                f"time must lie in [{low:g}, {high:g}], got values from {at.min():g} to "
                f"{at.max():g}: name later times in times= of the method that made the curve"
            )
        values = np.interp(at, np.append(0.0, self.x), np.append(self.start, self.y))
        return values if at.ndim else float(values)

    def __repr__(self) -> str:
        return f"TimeCurve({len(self.x)} times up to {self.x[-1]:g})"


def curves(times: Array, values: Array, start: float) -> npt.NDArray[np.object_]:
    """A curve for each row of values [n, T], as an array of objects [n]."""
    found = np.empty(len(values), dtype=object)
    for row, of_row in enumerate(values):
        found[row] = TimeCurve(times, of_row, start)
    return found
