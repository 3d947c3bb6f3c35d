"""Untrained models of every response along an axis, their z far from its start, and rows."""

from __future__ import annotations

from typing import Any

import zoo

CASES = list(zoo.AXIS_KINDS)


def rows(case: str, count: int, seed: int = 0) -> tuple[Any, ...]:
    """x, r and what the response of a case takes as y."""
    return zoo.rows_of(case, count, seed)[:3]


def kind_of(case: str) -> str:
    """The response of a case."""
    return zoo.KINDS[case].response


def model_of(case: str, **options: Any) -> Any:
    """A model in float64 that has learned its units."""
    return zoo.informative(zoo.with_units(case, hidden=8, **options), 1.5, ["cost_net"])
