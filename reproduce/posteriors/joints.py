"""The joint densities of latent variables, costs and outcome, written out with numpy alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reproduce.posteriors.quadrature import Cell, Joint, at_point, between, line, moments, normal

Numbers = dict[str, Any]
INF = np.inf
#: Standard deviations of a prior beyond which a latent coordinate is not followed.
FAR = 10.0


@dataclass(frozen=True)
class Problem:
    """A model with fixed numbers, and rows whose posterior is asked for.

    :param title: what it is a case of; `story`: its densities, a line each.
    :param numbers: all constants of the story.
    :param x, r, y: the rows, [B, x_dim], [B, r_dim] and [B], or [B, 3] of (lower, upper, entry)
        for times.
    :param joint: function (problem, row, panels) -> the joint density of a row on a grid.
    :param unit: of the costs, and so of what they are compared with.
    """

    title: str
    story: tuple[str, ...]
    numbers: Numbers
    x: list[list[float]]
    r: list[list[float]]
    y: list[Any]
    joint: Callable[[Problem, int, int], Joint]
    unit: str = "none"

    def __getitem__(self, name: str) -> Any:
        """A constant as an array."""
        return np.asarray(self.numbers[name], dtype=float)

    def prior(self, row: int, panels: int, axes: int = 1) -> tuple[list[Any], Any]:
        """z ~ N(loc + slope x, 1), its coordinates on the first axes of a grid."""
        loc = self["z_loc"] + self["z_slope"] * self.x[row][0]
        lines = [
            line(m - FAR, m + FAR, panels, axis, max(axes, len(loc))) for axis, m in enumerate(loc)
        ]
        weight: Any = 1.0
        for m, (z, dz) in zip(loc, lines, strict=True):
            weight = weight * normal(z, m, 1.0) * dz
        return [z for z, _ in lines], weight


def _named(z: list[Any]) -> dict[str, Any]:
    return {f"z[{d}]": value for d, value in enumerate(z)}


def _sides(p: Problem, k: int, loc: Any, point: Any) -> list[Any]:
    """A cost below a point and from it on."""
    family, scale = p.numbers["family"], float(p["c_scale"].ravel()[k])
    return [between(family, loc, scale, *ends) for ends in ((-INF, point), (point, INF))]


def _all_below(p: Problem, row: int) -> Callable[[tuple[int, ...]], bool]:
    """y = 1 if all costs are below."""
    return lambda at: (sum(at) == 0) == (p.y[row] == 1)


def plain(p: Problem, row: int, panels: int) -> Joint:
    """c_k ~ (c_loc_k + c_slope_k z_k), each compared with r_k; one z for each cost."""
    z, weight = p.prior(row, panels)
    costs = {
        f"c[{k}]": _sides(p, k, p["c_loc"][k] + p["c_slope"][k] * z[k], r)
        for k, r in enumerate(p.r[row])
    }
    return Joint(_named(z), weight, costs, _all_below(p, row))


def alternatives(p: Problem, row: int, panels: int) -> Joint:
    """y = 1 if for one g at least all c_gk < h_gk(r) = sum_m map_gkm r_m."""
    (z,), weight = p.prior(row, panels)
    h, costs = p["map"] @ np.asarray(p.r[row]), {}
    for k, (g, i) in enumerate(np.ndindex(h.shape)):
        loc = p["c_loc"][g, i] + p["c_slope"][g, i] * z
        costs[f"c[{g},{i}]"] = _sides(p, k, loc, h[g, i])
        if "never" in p.numbers:  # a third cell, for an infinite cost
            never = p["never"][g]
            finite = [Cell(*(v * (1.0 - never) for v in cell)) for cell in costs[f"c[{g},0]"]]
            costs[f"c[{g},0]"] = [*finite, Cell(never, 0.0, 0.0, 0.0)]
    per = h.shape[1]

    def agrees(at: tuple[int, ...]) -> bool:
        hit = any(sum(at[g * per : (g + 1) * per]) == 0 for g in range(len(h)))
        return hit == (p.y[row] == 1)

    return Joint({"z[0]": z}, weight, costs, agrees)


def members(p: Problem, row: int, panels: int) -> Joint:
    """z is one of the members, p(z) uniform; c_k | z and h_zk(r) are those of the member."""
    member = np.eye(len(p["c_loc"]))
    costs = {}
    for k, loc in enumerate(p["c_loc"].T):
        h, scales = p["map"][:, k, 0] * p.r[row][0], p["c_scale"][:, k]
        pairs = [((-INF, float(point)), (float(point), INF)) for point in h]
        cells = []
        for side in (0, 1):
            parts = [
                between(p.numbers["family"], m, s, *ends[side])
                for m, s, ends in zip(loc, scales, pairs, strict=True)
            ]
            cells.append(Cell(*(np.array(v).ravel() for v in zip(*parts, strict=True))))
        costs[f"c[{k}]"] = cells
    return Joint(
        _named(list(member.T)), np.full(len(member), 1.0 / len(member)), costs, _all_below(p, row)
    )


def kernel(p: Problem, row: int, panels: int) -> Joint:
    """k ~ N(0, I), r ~ N(dr_loc + W k, dr_scale^2), y = 1 if all c_j < k_j."""
    (z,), weight = p.prior(row, panels, 3)
    k = []
    mean: Any = p["dr_loc"]
    for j in (0, 1):
        at, dk = line(-8.0, 8.0, panels, 1 + j, 3)
        weight = weight * normal(at, 0.0, 1.0) * dk
        mean = mean + p["loading"][j] * at
        k.append(at)
    weight = weight * normal(p.r[row][0], mean, p["dr_scale"])
    costs = {f"c[{j}]": _sides(p, j, p["c_loc"][j] + p["c_slope"][j] * z, k[j]) for j in (0, 1)}
    latents = {"z[0]": z, "k[0]": k[0], "k[1]": k[1]}
    return Joint(latents, weight, costs, _all_below(p, row))


def times(p: Problem, row: int, panels: int) -> Joint:
    """T is the first t with all c_k < map_k r + axis_k log t; what is known of it is y."""
    (z,), weight = p.prior(row, panels)
    (lower, upper, entry), costs, entered = p.y[row], {}, 1.0
    if entry > 0.0:
        alive = replace(p, y=[[entry, INF, 0.0]], x=[p.x[row]], r=[p.r[row]])
        entered = np.exp(moments(times(alive, 0, panels)).log_evidence)
    for k, loc_at in enumerate(p["c_loc"]):
        loc, scale = loc_at + p["c_slope"][k] * z, p["c_scale"][k]
        h = p["map"][k, 0] * p.r[row][0]
        ends = [h + p["axis"][k, 0] * np.log(t) for t in (lower, upper) if 0.0 < t < INF]
        if lower == upper:
            below = between(p.numbers["family"], loc, scale, -INF, ends[0])
            slope = p["axis"][k, 0] / lower
            costs[f"c[{k}]"] = [below, at_point(p.numbers["family"], loc, scale, ends[0], slope)]
        else:
            cuts = [-INF, *ends, INF]
            pairs = itertools.pairwise(cuts)
            costs[f"c[{k}]"] = [between(p.numbers["family"], loc, scale, *pair) for pair in pairs]

    def agrees(at: tuple[int, ...]) -> bool:
        if lower == upper:  # one cost is at the time, the others are below
            return sum(at) == 1
        by_first, by_second = max(at) == 0, max(at) <= 1
        if upper == INF:
            return not by_first
        return by_first if lower == 0.0 else by_second and not by_first

    return Joint({"z[0]": z}, weight, costs, agrees, entered)


def levels(p: Problem, row: int, panels: int) -> Joint:
    """y >= l if all c_k < map_k r - threshold_kl; thresholds rise with l."""
    (z,), weight = p.prior(row, panels)
    level, top, costs = p.y[row], p["thresholds"].shape[1], {}
    for k in range(len(p["c_loc"])):
        loc, scale = p["c_loc"][k] + p["c_slope"][k] * z, p["c_scale"][k]
        h = p["map"][k, 0] * p.r[row][0] - p["thresholds"][k]  # falls with l = 1 .. top
        ends = [h[level] if level < top else -INF, h[level - 1] if level > 0 else INF]
        cuts = [-INF, *ends, INF]
        pairs = itertools.pairwise(cuts)
        costs[f"c[{k}]"] = [
            between(p.numbers["family"], loc, scale, *pair) for pair in pairs if pair[0] < pair[1]
        ]
    lowest = 0 if level < top else -1  # the cell below the next level, where there is one

    def agrees(at: tuple[int, ...]) -> bool:
        return max(at) <= lowest + 1 and max(at) > lowest

    return Joint({"z[0]": z}, weight, costs, agrees)
