"""Outcomes that say little of anything, which a training takes all the same."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pyro_gcm._warn import warn_user


class Extremes:
    """Lowest and highest outcomes of rows [n] or [n, D]; NaN where one is missing.

    :param y: of the first rows.
    """

    def __init__(self, y: Tensor | None = None) -> None:
        self._ends: tuple[Tensor, Tensor] | None = None
        if y is not None:
            self.add(y)

    def add(self, y: Tensor) -> None:
        """Take further rows."""
        low, high = y.amin(0), y.amax(0)
        if self._ends is not None:
            low, high = low.minimum(self._ends[0]), high.maximum(self._ends[1])
        self._ends = low, high

    def tell(self, response: Any) -> None:
        """Warn where all rows have one outcome, or no event.

        :param response: of the model that is trained, whose `outcome` gave the rows.
        """
        assert self._ends is not None
        low, high = self._ends
        if not response.is_censored:
            if low.dim() == 0 and low == high:
                warn_user(f"y has the same value in all rows, {low:g}: there is nothing to learn")
        elif low[1].isinf():
            warn_user("y has no event: all rows are censored, and tell little of when events come")
        elif low[0] == high[0] == low[1] == high[1]:
            warn_user(f"y has the same time in all rows, {low[0]:g}: there is nothing to learn")
