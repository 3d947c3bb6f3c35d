"""Times of events that may have been seen in part: censored, or of late entrants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, InvalidValue, as_tensor, same_rows

#: Width of an interval over its upper end from which on its ends stay apart on any scale of time.
NARROWEST = 1e-12
#: Labels of causes, as text, that say that none came.
_NO_CAUSE = frozenset({"", "0", "False", "nan", "NaN", "NaT", "None", "<NA>"})


class SurvivalTimes:
    """Times of n events in any unit, each exact or censored.

    The event of a row occurred at `lower` where `upper` is the same; otherwise after `lower` and
    not after `upper`. So (t, t) is an exact time, (t, inf) a right-censored, (0, t) a left-censored
    and (a, b) an interval-censored one. A row with an `entry` is in the data only because its event
    occurred after that time (delayed entry, left truncation).

    It is an array of rows, as tools that split rows take it: it has a length and a shape, and is
    indexed by slices, masks and integers. It cannot be unpacked or iterated over.

    :param lower: [n], at least 0.
    :param upper: [n], at least `lower`; inf where the event was not seen to come.
    :param entry: [n], at least 0 and not above `lower`; 0, for everyone, by default.
    :raises ValueError: for other values, naming the first row.

    >>> SurvivalTimes([2.0, 3.0, 0.0], [2.0, float("inf"), 4.0])
    SurvivalTimes(3 rows: 1 exact, 1 right-censored, 1 left-censored)
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike, entry: ArrayLike | None = None) -> None:
        parts = {"lower": _column("lower", lower), "upper": _column("upper", upper)}
        parts["entry"] = (
            torch.zeros_like(parts["lower"]) if entry is None else _column("entry", entry)
        )
        same_rows(**parts)
        self.lower, self.upper, self.entry = parts.values()
        check_times(self.columns())

    @classmethod
    def right_censored(
        cls, time: ArrayLike, event: ArrayLike, entry: ArrayLike | None = None
    ) -> SurvivalTimes:
        """Times [n], exact where `event` [n] is true and right-censored where it is not."""
        lower, happened = _column("time", time), _column("event", event)
        same_rows(time=lower, event=happened)
        came = _true("event", happened)
        at_zero = (
            "time must be above 0 where the event occurred (for one that rounds to 0 a small time)"
        )
        _refuse(lower, ~(lower >= 0.0), "time must be at least 0")
        _refuse(lower, lower.isinf(), "time must be finite")
        _refuse(lower, (lower == 0.0) & came, at_zero)
        return cls(lower, torch.where(came, lower, math.inf), entry)

    @staticmethod
    def competing(
        time: ArrayLike, cause: Any, causes: Sequence[Any] = ()
    ) -> dict[str, SurvivalTimes]:
        """The latent times of several causes, of which the first to come is seen: by cause.

        That of the cause which came is exact, and the others are right-censored then.

        :param time: of the event or of censoring, [n].
        :param cause: what came, [n], numbers or text; 0, False, NaN, None, or
            text that says so, where nothing had.
        :param causes: all of them, in order; by default those in `cause`, sorted.
        :returns: the times by cause, whose name is text, as `responses.CompetingRisks` takes them.
        :raises ValueError: for impossible times, and a cause that is not among `causes`.

        >>> SurvivalTimes.competing([2.0, 3.0, 4.0], ["death", None, "relapse"])["death"]
        SurvivalTimes(3 rows: 1 exact, 2 right-censored)
        """
        given = cause.tolist() if hasattr(cause, "tolist") else list(cause)
        if any(isinstance(label, list) for label in given):
            raise ValueError(f"cause must have shape [n], got rows such as {given[0]}")
        names = ["" if (name := _name(label)) in _NO_CAUSE else name for label in given]
        known = [_name(each) for each in causes] or sorted({*names} - {""})
        if none := [name for name in known if name in _NO_CAUSE]:
            raise ValueError(f"causes must not have {none[0]!r}, which says that none came")
        for row, name in enumerate(names):
            if name and name not in known:
                raise InvalidValue(f"cause must be one of {known} or 0, got {name!r}", row)
        if not known:
            raise ValueError("cause must have a cause in some row, got none")
        came = np.array(names)
        return {name: SurvivalTimes.right_censored(time, came == name) for name in known}

    @classmethod
    def current_status(cls, time: ArrayLike, happened: ArrayLike) -> SurvivalTimes:
        """Whether the event had occurred, [n], when a row was looked at once, at a time [n]."""
        at, before = _column("time", time), _column("happened", happened)
        same_rows(time=at, happened=before)
        came = _true("happened", before)
        return cls(torch.where(came, 0.0, at), torch.where(came, at, math.inf))

    def columns(self) -> Tensor:
        """(lower, upper, entry) as one tensor [n, 3], float64, as a program takes them."""
        return torch.stack([self.lower, self.upper, self.entry], -1)

    @property
    def is_exact(self) -> Tensor:
        """Whether each time is known, [n]."""
        return self.lower == self.upper

    @property
    def shape(self) -> tuple[int]:
        """(n,)."""
        return (len(self.lower),)

    @property
    def ndim(self) -> int:
        """1, as that of any array of rows."""
        return 1

    def __len__(self) -> int:
        return len(self.lower)

    def __iter__(self) -> Any:
        raise TypeError("SurvivalTimes cannot be iterated over: it has lower, upper and entry")

    def __getitem__(self, rows: Any) -> SurvivalTimes:
        """Some of the rows, by a slice, a mask, indices or one index.

        :raises IndexError: for rows that are not there, and for a mask of another length.
        :raises ValueError: for no rows.
        """
        rows = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
        chosen = torch.from_numpy(np.atleast_1d(np.arange(len(self))[rows]).copy())
        if chosen.dim() > 1:
            raise IndexError(f"rows must be chosen along one axis, got {chosen.dim()} of them")
        return SurvivalTimes(self.lower[chosen], self.upper[chosen], self.entry[chosen])

    def __repr__(self) -> str:
        right, left = self.upper.isinf(), (self.lower == 0.0) & ~self.upper.isinf()
        kinds = {
            "exact": self.is_exact,
            "right-censored": right,
            "left-censored": left,
            "interval-censored": ~(self.is_exact | right | left),
            "entered late": self.entry > 0.0,
        }
        counts = [f"{int(rows.sum())} {name}" for name, rows in kinds.items() if rows.any()]
        return f"SurvivalTimes({len(self)} rows: {', '.join(counts)})"


def _column(name: str, value: ArrayLike) -> Tensor:
    tensor = as_tensor(name, value).double()
    if tensor.dim() != 1 or not len(tensor):
        raise ValueError(f"{name} must have shape [rows], got shape {tuple(tensor.shape)}")
    return tensor


def _name(label: Any) -> str:
    """A cause as text, 2 for 2.0."""
    whole = isinstance(label, float) and label.is_integer()
    return str(int(label) if whole else label)


def _true(name: str, value: Tensor) -> Tensor:
    """Which of the values are 1, where all others are 0."""
    _refuse(value, (value != 0) & (value != 1), f"{name} must be true or false, 1 or 0")
    return value == 1


def _refuse(values: Tensor, wrong: Tensor, rule: str) -> None:
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InvalidValue(f"{rule}, got {values[row]:g}", row)


def check_times(columns: Tensor) -> None:
    """Refuse impossible rows (lower, upper, entry) [n, 3].

    :raises ValueError: naming the first row.
    """
    lower, upper, entry = columns.unbind(-1)
    for wrong, rule in (
        (columns.isnan().any(-1), "have no NaN"),
        ((lower < 0.0) | (entry < 0.0), "be at least 0"),
        (lower.isinf() | entry.isinf(), "have a finite lower and entry"),
        (upper < lower, "have lower up to upper"),
        (upper == 0.0, "have exact times above 0 (give those that round to 0 as left-censored)"),
        (entry > lower, "have entry up to lower"),
        (
            (upper > lower) & (upper - lower < NARROWEST * upper),
            f"have intervals wider than {NARROWEST:g} of the time (an exact one is lower = upper)",
        ),
    ):
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise InvalidValue(
                f"y must {rule}, got (lower, upper, entry) = {tuple(columns[row].tolist())}", row
            )
