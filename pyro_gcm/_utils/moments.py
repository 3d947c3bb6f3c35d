"""Moments of columns, of parts that are merged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor


@dataclass(frozen=True)
class Moments:
    """Mean, spread and range of the values of each column; float64 [d].

    :param count: number of rows.
    :param origin: a value of the column, so that a column far from 0 keeps its precision.
    :param shift: the mean less the origin.
    :param std: standard deviation, as that of a population.
    :param least: the smallest value.
    :param largest: the largest value.
    """

    count: int
    origin: Tensor
    shift: Tensor
    std: Tensor
    least: Tensor
    largest: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.origin + self.shift

    @property
    def size(self) -> Tensor:
        """The largest absolute value."""
        return torch.maximum(self.least.abs(), self.largest.abs())

    def merged(self, other: Moments) -> Moments:
        """The moments of the values of both, by the update of Chan, Golub and LeVeque."""
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        part, rest = self.count / count, other.count / count
        shift = (other.origin - self.origin) + other.shift
        within = torch.hypot(math.sqrt(part) * self.std, math.sqrt(rest) * other.std)
        return Moments(
            count,
            self.origin,
            part * self.shift + rest * shift,
            torch.hypot(within, math.sqrt(part * rest) * (shift - self.shift)),
            torch.minimum(self.least, other.least),
            torch.maximum(self.largest, other.largest),
        )


#: Moments by the name of a matrix, where the rows at hand are a sample.
KnownMoments: TypeAlias = Mapping[str, Moments] | None


def moments(values: Tensor) -> Moments:
    """The moments of rows [n, d] in float32 or float64."""
    if not values.numel():  # no rows, or no columns
        return Moments(len(values), *[torch.zeros(values.shape[1], dtype=torch.float64)] * 5)
    least, largest = (bound.double() for bound in values.aminmax(dim=0))
    # A power of two divides exactly, and the squares of what is left are finite.
    unit = torch.frexp(largest - least).exponent.double().exp2()
    apart = (values.double() - least) / unit
    shift, std = apart.mean(0), apart.std(0, correction=0)
    return Moments(len(values), least, shift * unit, std * unit, least, largest)
