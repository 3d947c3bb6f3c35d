"""Moments of a posterior by quadrature of a joint density, with numpy alone.

Every cost is cut at the points with which it is compared. The outcome depends on the cells in which
the costs lie and on nothing else, so that a sum over all combinations of cells that agree with it
needs no formula for the probability of an order event.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
#: Scales from its location, or from the end of a cell, beyond which a cost is not followed.
REACH = {"normal": 12.0, "logistic": 45.0, "laplace": 45.0}


def normal(value: Any, loc: Any, scale: Any) -> Any:
    """Density of N(loc, scale^2)."""
    return np.exp(-0.5 * ((value - loc) / scale) ** 2) / (scale * np.sqrt(2.0 * np.pi))


def density(family: str, value: Any, loc: Any, scale: Any) -> Any:
    """Density of a cost of a family."""
    if family == "normal":
        return normal(value, loc, scale)
    tail = np.exp(-np.abs(value - loc) / scale)
    return tail / (1.0 + tail) ** 2 / scale if family == "logistic" else tail / (2.0 * scale)


def nodes(low: Any, high: Any, panels: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights between ends [...], eight to a panel, [..., n]."""
    at, weights = np.polynomial.legendre.leggauss(8)
    starts = np.arange(panels)[:, None]
    share = ((starts + 0.5 * (at + 1.0)) / panels).ravel()
    width = np.asarray(high - low, dtype=float)[..., None]
    places = np.asarray(low, dtype=float)[..., None] + width * share
    return places, width * np.tile(0.5 * weights / panels, panels)


def line(low: float, high: float, panels: int, axis: int, axes: int) -> tuple[Array, Array]:
    """Nodes and weights of one latent coordinate, along one of so many axes of a grid."""
    shape = [1] * axes
    shape[axis] = -1
    places, weights = nodes(low, high, panels)
    return places.reshape(shape), weights.reshape(shape)


class Cell(NamedTuple):
    """Mass of a cost in a cell and its first two moments there, each on the grid of the latents.

    `finite` is the mass of finite costs: 0 in the cell of an infinite one.
    """

    mass: Any
    first: Any
    second: Any
    finite: Any


def between(family: str, loc: Any, scale: float, low: Any, high: Any, panels: int = 24) -> Cell:
    """The cell [low, high) of a cost, whose ends may be infinite or depend on the latents."""
    loc, low, high = (np.asarray(value, dtype=float) for value in (loc, low, high))
    far = REACH[family] * scale
    low = np.where(np.isinf(low), np.minimum(loc, np.where(np.isinf(high), loc, high)) - far, low)
    high = np.where(np.isinf(high), np.maximum(loc, low) + far, high)
    middle = np.clip(loc, low, high)  # where some densities have a kink
    moments: list[Any] = [0.0, 0.0, 0.0]
    for a, b in ((low, middle), (middle, high)):
        places, weights = nodes(a, b, panels)
        share = weights * density(family, places, loc[..., None], scale)
        moments = [m + (share * places**p).sum(-1) for p, m in enumerate(moments)]
    mass, first, second = moments
    return Cell(mass, first, second, mass)


def at_point(family: str, loc: Any, scale: float, point: float, slope: float) -> Cell:
    """A cost at a point that moves by `slope` with what was observed: a density, not a mass."""
    mass = slope * density(family, point, loc, scale)
    return Cell(mass, mass * point, mass * point**2, mass)


class Joint(NamedTuple):
    """p(latents, c, what was observed) of one row, on a grid of the latents.

    :param latents: name of each coordinate -> its values on the grid, which broadcast.
    :param weight: density of the latents and of what was observed but y, times the weights of the
        quadrature.
    :param costs: name of each cost -> its cells.
    :param agrees: whether the outcome agrees with the cells in which the costs lie.
    :param selected: probability of the row to be in the data at all.
    """

    latents: dict[str, Array]
    weight: Array
    costs: Mapping[str, Sequence[Cell]]
    agrees: Callable[[tuple[int, ...]], bool]
    selected: float = 1.0


class Moments(NamedTuple):
    """Mean and standard deviation of every coordinate, and log p(y | x, r)."""

    mean: dict[str, float]
    sd: dict[str, float]
    log_evidence: float


def moments(joint: Joint) -> Moments:
    """Sum over the grid and over the combinations of cells that agree with the outcome.

    Moments of a cost that may be infinite are those of its finite values; `c[..] infinite` is the
    probability that it is not finite.
    """
    names, cells = list(joint.costs), list(joint.costs.values())
    sums: dict[str, Array] = {name: np.zeros(3) for name in (*joint.latents, *names)}
    total = 0.0
    for at in itertools.product(*(range(len(own)) for own in cells)):
        if not joint.agrees(at):
            continue
        chosen = [own[i] for own, i in zip(cells, at, strict=True)]
        mass: Any = joint.weight
        for cell in chosen:
            mass = mass * cell.mass
        total += float(mass.sum())
        for name, value in joint.latents.items():
            sums[name] += [float((mass * value**p).sum()) for p in range(3)]
        for k, (name, cell) in enumerate(zip(names, chosen, strict=True)):
            rest: Any = joint.weight
            for other in (*chosen[:k], *chosen[k + 1 :]):
                rest = rest * other.mass
            own = (cell.finite, cell.first, cell.second)
            sums[name] += [float((rest * part).sum()) for part in own]
    mean = {name: s[1] / s[0] for name, s in sums.items()}
    sd = {name: float(np.sqrt(s[2] / s[0] - mean[name] ** 2)) for name, s in sums.items()}
    for name in names:
        never = 1.0 - sums[name][0] / total
        if any(np.any(cell.mass != cell.finite) for cell in joint.costs[name]):
            mean[f"{name} infinite"], sd[f"{name} infinite"] = never, np.sqrt(never * (1.0 - never))
    evidence = total / float(joint.weight.sum()) / joint.selected
    return Moments(mean, sd, float(np.log(evidence)))
