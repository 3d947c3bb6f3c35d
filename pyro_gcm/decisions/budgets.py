"""A budget over rows: one option for each row, so that all gain most and spend no more than it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.validation import ArrayLike, as_tensor, number

Array = npt.NDArray[np.float64]
Choice = npt.NDArray[np.int64]
#: Halvings of the range of the multiplier.
_HALVINGS = 100
#: By how much of a limit the solver may exceed it, and what the largest gain is made for it.
_SLACK, _LARGEST = 2e-6, 1e4


@dataclass(frozen=True, eq=False)
class Allocation:
    """What is chosen for n rows under a budget.

    :param choice: index of the option of each row, [n], -1 for none.
    :param gain: of all choices together; `spend`: what they spend, at most the budget.
    :param bound: the gain of every choice within the budget is at most this.
    :param multiplier: the gain that a further unit of the budget is worth.
    """

    choice: Choice
    gain: float
    spend: float
    bound: float
    multiplier: float

    @property
    def gap(self) -> float:
        """What the best choice can gain more at most."""
        return max(0.0, self.bound - self.gain)


def allocate(gain: ArrayLike, spend: ArrayLike, budget: float) -> Allocation:
    """The options of largest gain that together spend at most a budget; one, or none, for each row.

    Solved as an integer program (HiGHS, through `scipy.optimize.milp`), which is exact but for
    rounding: the best choice on the grid of options. Of bids, with p = model.surface(x, bids) and
    what winning each row is worth::

        allocate(worth[:, None] * p, bids * p, budget)                  # expected spend
        allocate((worth[:, None] - bids) * p, bids.expand_as(p), budget)  # spend if all are won

    :param gain: of each option of each row, [n, R]; none gains 0.
    :param spend: of each option, at least 0, [n, R] or [R]; none spends 0.
    :param budget: at least 0, in the unit of `spend`.
    :raises ValueError: for shapes that differ, numbers that are not finite, or negative spends.

    >>> allocate([[3.0, 4.0], [2.0, 5.0]], [1.0, 2.0], budget=3.0).choice.tolist()
    [0, 1]
    """
    gains, spends, budget = _checked(gain, spend, budget)
    fast = allocate_by_multiplier(gains, spends, budget)
    net = gains - fast.multiplier * spends
    most = np.maximum(net.max(1, keepdims=True), 0.0)
    open_gap = most.sum() + fast.multiplier * budget - fast.gain
    # An option that costs its row more than this is in no choice that is better than the fast one.
    worth = (gains > 0.0) & (most - net <= open_gap + 1e-9 * max(fast.gain, gains.max()))
    worth &= spends <= budget
    if not worth.any():
        return replace(fast, bound=fast.gain)
    choice, bound = _solved(gains, spends, budget, worth)
    if _sum(spends, choice) > budget:  # the solver lets sums exceed a limit a little
        choice, _ = _solved(gains, spends, budget * (1.0 - _SLACK), worth)
    if _sum(gains, choice) < fast.gain:
        choice = fast.choice
    bound = min(bound, fast.bound)
    return Allocation(choice, _sum(gains, choice), _sum(spends, choice), bound, fast.multiplier)


def allocate_by_multiplier(gain: ArrayLike, spend: ArrayLike, budget: float) -> Allocation:
    """`allocate` for many rows: each row takes the option of largest gain - multiplier * spend.

    The multiplier is the smallest one that keeps within the budget; what is then left is spent on
    rows that lie between two options. Gains that are not concave in what is spent leave a gap,
    which is reported and at most the largest gain of one row: the bound is Lagrange's, the least
    over multipliers m of the sum of max(gain - m * spend) plus m * budget (Everett 1963).

    The arguments are those of `allocate`.
    """
    gains, spends, budget = _checked(gain, spend, budget)
    none = np.zeros((len(gains), 1))
    gains, spends = np.hstack([none, gains]), np.hstack([none, spends])

    def chosen(multiplier: float) -> tuple[Choice, float]:
        net = gains - multiplier * spends
        return net.argmax(1), float(net.max(1).sum()) + multiplier * budget

    choice, bound = chosen(0.0)
    high = 0.0
    if _sum(spends, choice) > budget:
        costly = choice
        rates = gains[spends > 0.0] / np.maximum(spends[spends > 0.0], np.finfo(float).tiny)
        low, high = 0.0, min(2.0 * float(rates.max()), 1e200)  # at which none spends anything
        choice, at_high = chosen(high)
        bound = min(bound, at_high)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            found, at_middle = chosen(middle)
            bound = min(bound, at_middle)
            if _sum(spends, found) > budget:
                low, costly = middle, found
            else:
                high, choice = middle, found
        choice = _filled(gains, spends, budget, choice, costly)
    return Allocation(choice - 1, _sum(gains, choice), _sum(spends, choice), bound, high)


def _solved(gains: Array, spends: Array, budget: float, worth: Any) -> tuple[Choice, float]:
    """The choice [n] of the integer program among options that are worth it, and its bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, vstack

    choice = np.full(len(gains), -1)
    row, option = np.nonzero(worth)
    gain, spend = gains[row, option], spends[row, option]
    unit = gain.max() / _LARGEST
    place = row, np.arange(len(row))
    one_each = csr_array((np.ones(len(row)), place), shape=(len(gains), len(row)))
    total = csr_array(spend[None] / (budget or 1.0))
    rules = LinearConstraint(vstack([one_each, total]), ub=1.0)
    options: Any = {"bounds": Bounds(0, 1), "options": {"mip_rel_gap": 0.0}}
    with _silent():
        found = milp(-gain / unit, integrality=1, constraints=rules, **options)
    choice[row[found.x > 0.5]] = option[found.x > 0.5]
    return choice, -float(found.mip_dual_bound) * unit


@contextmanager
def _silent() -> Iterator[None]:
    """Without lines on standard output that HiGHS in SciPy 1.17 prints whatever its options are."""
    if os.name != "posix":  # whose C library could not be told to print at once
        yield
        return
    flush, kept = ctypes.CDLL(None).fflush, os.dup(1)
    flush(None)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            yield
            flush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _filled(gains: Array, spends: Array, budget: float, choice: Choice, costly: Choice) -> Choice:
    """The choice with rows changed to their costlier option as far as the budget allows."""
    rows, filled = np.flatnonzero(choice != costly), choice.copy()
    extra, more = (v[rows, costly[rows]] - v[rows, choice[rows]] for v in (spends, gains))
    left = budget - _sum(spends, choice)
    for at in np.argsort(-more, kind="stable"):
        if extra[at] <= left:
            filled[rows[at]], left = costly[rows[at]], left - extra[at]
    return filled if _sum(spends, filled) <= budget else choice  # but for rounding


def _sum(values: Array, choice: Choice) -> float:
    """The sum of the values [n, R] of the chosen options, 0 for none."""
    rows = np.flatnonzero(choice >= 0)
    return float(values[rows, choice[rows]].sum())


def _checked(gain: ArrayLike, spend: ArrayLike, budget: float) -> tuple[Array, Array, float]:
    """Gains and spends [n, R], and the budget."""
    gains = as_tensor("gain", gain).double().cpu().numpy()
    spends = as_tensor("spend", spend).double().cpu().numpy()
    if gains.ndim != 2 or not gains.size or spends.shape not in (gains.shape, gains.shape[1:]):
        raise ValueError(
            "gain must have shape [n, R], and spend the same or [R], got shapes "
            f"{list(gains.shape)} and {list(spends.shape)}"
        )
    for name, each, least in (("gain", gains, -np.inf), ("spend", spends, 0.0)):
        wrong = each[~(np.isfinite(each) & (each >= least))]
        if wrong.size:
            raise ValueError(f"{name} must be finite and at least {least:g}, got {wrong[0]:g}")
    return gains, np.broadcast_to(spends, gains.shape), number("budget", budget, low=0.0)
