"""The joint densities of the nine problems, and moments of their posteriors, by quadrature.

Every cost is cut at the points with which it is compared. The outcome depends on the cells in which
the costs lie and on nothing else, so that a sum over all combinations of cells that agree with it
needs no formula for the probability of an order event.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]
INF = np.inf
#: Costs by name, and scales from its location, or from the end of a cell, beyond which a cost is
#: not followed.
FAMILIES: dict[str, tuple[Any, float]] = {
    "normal": (stats.norm, 12.0),
    "logistic": (stats.logistic, 45.0),
    "laplace": (stats.laplace, 45.0),
}
#: Standard deviations of a prior beyond which a latent coordinate is not followed.
FAR = 10.0


@dataclass(frozen=True)
class Problem:
    """A model with fixed numbers, and rows whose posterior is asked for.

    :param numbers: all constants of the story.
    :param x, r, y: the rows, [B, x_dim], [B, r_dim] and [B], or [B, 3] of (lower, upper, entry)
        for times.
    """

    numbers: Mapping[str, Any]
    x: Sequence[Sequence[float]]
    r: Sequence[Sequence[float]]
    y: Sequence[Any]

    def __getitem__(self, name: str) -> Any:
        """A constant as an array."""
        return np.asarray(self.numbers[name], dtype=float)


class Cell(NamedTuple):
    """Mass of a cost in a cell and its first two moments there, each on the grid of the latents.

    `finite` is the mass of finite costs: 0 in the cell of an infinite one.
    """

    mass: Any
    first: Any
    second: Any
    finite: Any


def nodes(low: Any, high: Any, panels: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights between ends [...], eight to a panel, [..., n]."""
    at, weights = np.polynomial.legendre.leggauss(8)
    share = ((np.arange(panels)[:, None] + 0.5 * (at + 1.0)) / panels).ravel()
    width = np.asarray(high - low, dtype=float)[..., None]
    places = np.asarray(low, dtype=float)[..., None] + width * share
    return places, width * np.tile(0.5 * weights / panels, panels)


def between(family: str, loc: Any, scale: Any, low: Any, high: Any, panels: int = 24) -> Cell:
    """The cell [low, high) of a cost, whose ends may be infinite or depend on the latents."""
    law, reach = FAMILIES[family]
    low, high = (np.asarray(value, dtype=float) for value in (low, high))
    start = np.minimum(loc, np.where(np.isinf(high), loc, high)) - reach * scale
    low = np.where(np.isinf(low), start, low)
    high = np.where(np.isinf(high), np.maximum(loc, low) + reach * scale, high)
    middle = np.clip(loc, low, high)  # where some densities have a kink
    sums: list[Any] = [0.0, 0.0, 0.0]
    for a, b in ((low, middle), (middle, high)):
        places, weights = nodes(a, b, panels)
        share = weights * law.pdf(places, np.asarray(loc)[..., None], np.asarray(scale)[..., None])
        sums = [total + (share * places**p).sum(-1) for p, total in enumerate(sums)]
    mass, first, second = sums
    return Cell(mass, first, second, mass)


def latents(p: Problem, row: int, panels: int) -> tuple[dict[str, Array], Any]:
    """The values of each latent coordinate on a grid, which broadcast, and the weights there.

    z ~ N(z_loc + z_slope x, 1), k ~ N(0, I) with r ~ N(dr_loc + loading k, dr_scale), or z uniform
    over members. The weights have the density of what was observed but y.
    """
    if "z_loc" not in p.numbers:
        z = np.eye(len(p["c_loc"]))
        return {f"z[{d}]": column for d, column in enumerate(z)}, np.full(len(z), 1.0 / len(z))
    loc = p["z_loc"] + p["z_slope"] * p.x[row][0]
    means = {f"z[{d}]": mean for d, mean in enumerate(loc)}
    means |= {f"k[{j}]": 0.0 for j in range(len(p.numbers.get("loading", ())))}
    lines = [nodes(mean - FAR, mean + FAR, panels) for mean in means.values()]
    along = [np.ix_(*parts) for parts in zip(*lines, strict=True)]
    grid, weight = dict(zip(means, along[0], strict=True)), math.prod(along[1])
    for name, mean in means.items():
        weight = weight * stats.norm.pdf(grid[name], mean)
    if "loading" in p.numbers:
        mean = p["dr_loc"] + sum(w * grid[f"k[{j}]"] for j, w in enumerate(p["loading"]))
        weight = weight * stats.norm.pdf(p.r[row][0], mean, p["dr_scale"])
    return grid, weight


def cells(p: Problem, row: int, k: tuple[int, ...], grid: Mapping[str, Array]) -> dict[int, Cell]:
    """The cells of a cost: 0 below both of the ends that y has, 1 between, and 2 above both.

    An event at an end is that all costs of an alternative are below it; y says that it happened at
    the upper end, and not at the lower one. Ends are h(r) = map r, or the k of an implicit model,
    and where y is a time or a level they move along its axis.
    """
    family, y, r = p.numbers["family"], p.y[row], np.asarray(p.r[row])
    member = () if "z_loc" in p.numbers else (slice(None),)  # all members, on the axis of z
    place = (*member, *k)
    loc, scale = p["c_loc"][place], p["c_scale"][place]
    if not member:
        loc = loc + p["c_slope"][k] * grid[f"z[{k[0] if len(p['z_loc']) > 1 else 0}]"]
    h: Any = grid.get(f"k[{k[0]}]")
    if h is None:
        h = p["map"][place] @ r if "map" in p.numbers else r[k[0]]
    if "axis" in p.numbers:
        slope = p["axis"][k].item()
        with np.errstate(divide="ignore"):
            low, high = h + slope * np.log(y[:2])
    else:
        steps = p["thresholds"][k] if "thresholds" in p.numbers else [0.0]
        ends = [INF, *(h - step for step in steps), -INF]
        low, high = ends[y + 1], ends[y]
    edges = enumerate(itertools.pairwise((-INF, low, high, INF)))
    parts = {at: between(family, loc, scale, a, b) for at, (a, b) in edges if np.any(a < b)}
    if 1 not in parts:  # an exact time, and so a density
        mass = slope / y[0] * FAMILIES[family][0].pdf(low, loc, scale)
        parts[1] = Cell(mass, mass * low, mass * low**2, mass)
    if "never" in p.numbers:  # an infinite cost is above all ends
        never = p["never"][k[0]]
        parts = {at: Cell(*((1.0 - never) * sums for sums in c)) for at, c in parts.items()}
        top = max(parts)
        parts[top] = parts[top]._replace(mass=parts[top].mass + never)
    return parts


class Moments(NamedTuple):
    """Mean and standard deviation of every coordinate, and log p(y | x, r)."""

    mean: dict[str, float]
    sd: dict[str, float]
    log_evidence: float


def moments(p: Problem, row: int, panels: int) -> Moments:
    """Sum over a grid of the latents and over the combinations of cells that agree with y.

    Moments of a cost that may be infinite are those of its finite values; `c[..] infinite` is the
    probability that it is not finite.
    """
    grid, weight = latents(p, row, panels)
    places = [*np.ndindex(p["c_loc"].shape["z_loc" not in p.numbers :])]
    costs = {f"c[{','.join(map(str, k))}]": cells(p, row, k, grid) for k in places}
    sums: dict[str, Any] = {name: np.zeros(3) for name in (*grid, *costs)}
    total, is_time = 0.0, "axis" in p.numbers
    is_exact = is_time and p.y[row][0] == p.y[row][1]
    for at in itertools.product(*costs.values()):
        # An alternative waits for the highest of its costs, the event for the first alternative.
        groups: Any = itertools.groupby(zip(places, at, strict=True), lambda pair: pair[0][:-1])
        first = min(max(label for _, label in group) for _, group in groups)
        if first != 1 or (is_exact and sum(at) > 1):  # at an exact time there is one cost alone
            continue
        chosen = [parts[label] for parts, label in zip(costs.values(), at, strict=True)]
        mass = weight * math.prod(cell.mass for cell in chosen)
        total += float(mass.sum())
        for name, value in grid.items():
            sums[name] += [float((mass * value**power).sum()) for power in range(3)]
        for number, (name, cell) in enumerate(zip(costs, chosen, strict=True)):
            rest = weight * math.prod(c.mass for c in (*chosen[:number], *chosen[number + 1 :]))
            powers = cell.finite, cell.first, cell.second
            sums[name] += [float((rest * power).sum()) for power in powers]
    mean = {name: s[1] / s[0] for name, s in sums.items()}
    sd = {name: float(np.sqrt(s[2] / s[0] - mean[name] ** 2)) for name, s in sums.items()}
    for name in costs if "never" in p.numbers else ():
        never = 1.0 - sums[name][0] / total
        mean[f"{name} infinite"], sd[f"{name} infinite"] = never, np.sqrt(never * (1.0 - never))
    log_evidence = float(np.log(total / weight.sum()))
    if is_time and (entry := p.y[row][2]) > 0.0:  # of rows that were there by then
        entered = replace(p, y=[[entry, INF, 0.0]] * len(p.y))
        log_evidence -= moments(entered, row, panels).log_evidence
    return Moments(mean, sd, log_evidence)
