"""Standardisation as part of a model, so that inputs are passed in raw units."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import positive_int

#: Spreads from 0 beyond which neighbours in float32 are more than 1e-4 of a spread apart.
_FAR = 2.0**10
#: Scales beyond which squares of them, or of their inverses, are no normal numbers in float32.
_LARGE = 2.0**60
#: Values of a block of rows whose moments are computed at once.
AT_ONCE = 1 << 20
#: Bound on standardised values, so that sums and products of them are finite.
_LARGEST = 2.0**60


@dataclass(frozen=True)
class Moments:
    """Mean and spread of the values of each column; float64 [d].

    :param count: number of rows.
    :param origin: a value of the column, so that a column far from 0 keeps its precision.
    :param shift: the mean less the origin.
    :param std: standard deviation, as that of a population.
    """

    count: int
    origin: Tensor
    shift: Tensor
    std: Tensor

    @staticmethod
    def of(values: Tensor) -> Moments:
        """The moments of rows [n, d] in float32 or float64."""
        if not values.numel():  # no rows, or no columns
            return Moments(len(values), *[torch.zeros(values.shape[1], dtype=torch.float64)] * 3)
        least, largest = (bound.double() for bound in values.aminmax(dim=0))
        # A power of two divides exactly, and the squares of what is left are finite.
        unit = torch.frexp(largest - least).exponent.double().exp2()
        apart = (values.double() - least) / unit
        shift = apart.mean(0)
        std = apart.sub_(shift).square_().mean(0).sqrt_()  # a quarter of the time of `std`
        return Moments(len(values), least, shift * unit, std * unit)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.origin + self.shift

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
        )


#: Moments by the name of a matrix, where the rows at hand are a sample.
KnownMoments: TypeAlias = Mapping[str, Moments] | None


@recorded("nets.Standardizer")
class Standardizer(nn.Module):
    """The map (value - loc) / scale of each column, with loc and scale as buffers.

    It is the identity until `learn` is called. The scale is positive, so the order of revenues is
    preserved. Values are standardised in float64 before they are rounded to the dtype of the model,
    so that a column far from 0 does not lose precision, and a number is the same in every type.

    `loc` and `scale` have the dtype of the model, and float64 where that one cannot hold what was
    learned from rows in float64: where a column lies more than 1,024 spreads from 0, or its spread
    is no size that float32 can square. Then `inverse` returns float64, and `float`, `half` and `to`
    leave loc and scale in float64; a device without float64 cannot take them.

    :param dim: number of columns.
    """

    loc: Tensor
    scale: Tensor
    like: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        dim = positive_int("dim", dim, minimum=0)
        self.register_buffer("loc", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))
        self.register_buffer("like", torch.empty(0))  # always in the dtype of the model

    @property
    def dtype(self) -> torch.dtype:
        """That of the model and of standardised values."""
        return self.like.dtype

    def learn(self, values: Tensor, moments: Moments | None = None) -> None:
        """Set loc and scale to the mean and standard deviation of rows [n, dim].

        A constant column gets scale 1.

        :param moments: of all rows, where `values` are a sample of them.
        """
        if moments is None:  # in blocks, so that there is never a copy of all rows in float64
            blocks = values.split(max(1, AT_ONCE * len(values) // max(1, values.numel())))
            moments = functools.reduce(Moments.merged, map(Moments.of, blocks))
        loc, scale = moments.mean, moments.std
        # A column of which rounding makes the values differ is constant.
        scale = torch.where(scale <= 1e-12 * loc.abs(), 1.0, scale)
        exact = values.dtype == torch.float64 or _is_extreme(scale)
        kind = torch.float64 if exact and _is_wide(loc, scale) else self.dtype
        self.loc, self.scale = (v.to(self.loc.device, kind) for v in (loc, scale))

    def forward(self, values: Tensor) -> Tensor:
        """Standardised values [..., dim], in the dtype of the model."""
        loc, scale = self.loc.double(), self.scale.double()
        return (values - loc).div_(scale).clamp(-_LARGEST, _LARGEST).to(self.like.dtype)

    def inverse(self, standard: Tensor) -> Tensor:
        """Values [..., dim] in the units of the data."""
        return standard * self.scale + self.loc

    # The two types

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any) -> Standardizer:
        exact = self.loc, self.scale
        is_wide = self.loc.dtype == torch.float64 and not self.loc.is_meta and _is_wide(*exact)
        super()._apply(fn, *args)
        if is_wide and self.dtype != torch.float64 and not self.loc.is_meta:
            self.loc, self.scale = (value.to(self.loc.device) for value in exact)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if (loc := state_dict.get(prefix + "loc")) is not None:
            is_wide = loc.dtype == torch.float64 and _is_wide(loc, state_dict[prefix + "scale"])
            kind = torch.float64 if is_wide else self.dtype
            self.loc, self.scale = self.loc.to(kind), self.scale.to(kind)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _is_wide(loc: Tensor, scale: Tensor) -> bool:
    """Whether units need float64."""
    return bool((loc.abs() > _FAR * scale).any()) or _is_extreme(scale)


def _is_extreme(scale: Tensor) -> bool:
    return bool(((scale < 1.0 / _LARGE) | (scale > _LARGE)).any())
