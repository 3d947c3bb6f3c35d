"""Moments of columns, of parts that are merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

#: Sizes of values whose squares, summed over many rows, are normal numbers in float64.
_SQUARABLE = 2.0**400
_SMALLEST_UNIT = 2.0**-1000


@dataclass(frozen=True)
class Moments:
    """Count, mean, spread and range of the values of each column; float64 [d].

    :param count: how many values there are.
    :param mean: 0 where there is no value.
    :param rest: what rounding has left out of the mean.
    :param squares: sum of the squares of (value - mean) / unit.
    :param unit: a power of two, with which squares of values of any size are finite.
    :param least: the smallest value; infinity where there is none.
    :param largest: the largest value; -infinity where there is none.
    """

    count: Tensor
    mean: Tensor
    rest: Tensor
    squares: Tensor
    unit: Tensor
    least: Tensor
    largest: Tensor

    @property
    def std(self) -> Tensor:
        """Standard deviation, as that of a population; NaN where there is no value."""
        return (self.squares / self.count).sqrt() * self.unit

    @property
    def size(self) -> Tensor:
        """The largest absolute value; infinity where there is no value."""
        return torch.maximum(self.least.abs(), self.largest.abs())

    def merged(self, other: Moments) -> Moments:
        """The moments of the values of both, by the update of Chan, Golub and LeVeque."""
        count = self.count + other.count
        share = other.count / count.clamp(min=1.0)
        # A unit of two is the larger one: units grow with the values, and 0 has the smallest.
        unit = torch.maximum(self.unit, other.unit)
        apart = (other.mean - self.mean) + (other.rest - self.rest)
        squares = (apart / unit).square() * self.count * share
        for part in (self, other):
            squares = squares + part.squares * (part.unit / unit).square()
        step = self.rest + apart * share
        mean = self.mean + step
        taken = mean - self.mean  # and by how much that is not the step: Knuth's sum of two
        rest = (self.mean - (mean - taken)) + (step - taken)
        return Moments(
            count,
            mean,
            rest,
            squares,
            unit,
            torch.minimum(self.least, other.least),
            torch.maximum(self.largest, other.largest),
        )


#: Moments by the name of a matrix, where the rows at hand are a sample.
KnownMoments: TypeAlias = Mapping[str, Moments] | None


def moments(values: Tensor) -> Moments:
    """The moments of rows [n, d] in float32 or float64."""
    n, d = values.shape
    zero = torch.zeros(d, dtype=torch.float64)
    if not n:
        infinity = zero + torch.inf
        return Moments(zero, zero, zero, zero, zero + _SMALLEST_UNIT, infinity, -infinity)
    least, largest = (bound.double() for bound in values.aminmax(dim=0))
    unit = unit_of_squares(torch.maximum(least.abs(), largest.abs()))
    scaled = values if (unit == 1.0).all() else values.double() / unit
    constant = least == largest  # whose computed spread may be a few ulps
    mean = scaled.sum(0, dtype=torch.float64) / n
    mean = torch.where(constant, least / unit, mean)
    apart = scaled - mean
    rest = apart.sum(0) / n
    squares = apart.square_().sum(0) - n * rest.square()
    return Moments(zero + n, mean * unit, rest * unit, squares, unit, least, largest)


def unit_of_squares(size: Tensor) -> Tensor:
    """A power of two near each size, or 1 for sizes that can be squared as they are."""
    near = (size <= _SQUARABLE) & (size >= 1.0 / _SQUARABLE)
    exponent = torch.frexp(size).exponent.clamp(-1000, 1000)
    power = torch.ldexp(torch.ones_like(size), exponent)
    return torch.where(near, 1.0, torch.where(size > 0.0, power, _SMALLEST_UNIT))
