"""The nine problems: their densities, their numbers and their rows.

Every problem has latent variables of a row, costs c and an outcome y, and is small enough for
quadrature. `joints.py` has the densities as functions, `models.py` the nine in the library.
"""

from __future__ import annotations

from reproduce.posteriors.joints import (
    INF,
    Problem,
    alternatives,
    kernel,
    levels,
    members,
    plain,
    times,
)

_PRIOR = "z ~ N(z_loc + z_slope x, 1)"
_COST = "c ~ family(c_loc + c_slope z, c_scale)"

PROBLEMS: dict[str, Problem] = {
    "one_cost": Problem(
        "one cost, both outcomes, in the units of r",
        (_PRIOR, _COST, "y = 1 if c < r"),
        {"z_loc": [0.0], "z_slope": [0.5], "family": "normal", "r_units": [50.0, 10.0]}
        | {"c_loc": [50.0], "c_slope": [8.0], "c_scale": [6.0]},
        x=[[0.0], [0.0], [1.0], [1.0]],
        r=[[45.0], [60.0], [52.0], [48.0]],
        y=[1, 0, 1, 0],
        joint=plain,
        unit="that of r",
    ),
    "two_costs": Problem(
        "two costs that are nearly z, so that y = 0 leaves an L",
        (_PRIOR, _COST + ", k = 0, 1", "y = 1 if c_k < r_k for both k"),
        {"z_loc": [0.0, 0.0], "z_slope": [0.3, -0.2], "family": "normal"}
        | {"c_loc": [0.0, 0.0], "c_slope": [1.0, 1.0], "c_scale": [0.3, 0.3]},
        x=[[0.0], [0.0], [1.0]],
        r=[[0.2, -0.1], [0.3, 0.5], [-0.5, 0.8]],
        y=[1, 0, 0],
        joint=plain,
        unit="that of r",
    ),
    "far_tails": Problem(
        "outcomes with probabilities down to 1e-9",
        (_PRIOR, _COST, "y = 1 if c < r"),
        {"z_loc": [0.0], "z_slope": [0.3], "family": "normal"}
        | {"c_loc": [0.0], "c_slope": [1.2], "c_scale": [0.5]},
        x=[[0.0], [0.0], [1.0], [0.0]],
        r=[[-3.9], [5.2], [-6.5], [7.8]],
        y=[1, 0, 1, 0],
        joint=plain,
        unit="that of r",
    ),
    "alternatives": Problem(
        "two alternatives of two costs, two revenues",
        (_PRIOR, _COST + ", g, k = 0, 1", "y = 1 if for some g both c_gk < sum_m map_gkm r_m"),
        {"z_loc": [0.0], "z_slope": [0.4], "family": "logistic"}
        | {"c_loc": [[0.3, -0.4], [0.1, 0.6]], "c_slope": [[1.0, -0.6], [0.8, 1.2]]}
        | {"c_scale": [[0.4, 0.3], [0.5, 0.25]]}
        | {"map": [[[1.0, 0.2], [0.3, 0.9]], [[0.5, 0.5], [0.1, 1.4]]]},
        x=[[0.0], [0.0], [-1.0]],
        r=[[0.2, -0.3], [0.5, 0.4], [1.2, 0.8]],
        y=[1, 0, 0],
        joint=alternatives,
        unit="that of the mapped r",
    ),
    "infinite_costs": Problem(
        "two alternatives whose cost may be infinite",
        (
            *(_PRIOR, "c_g = inf with probability never_g, else " + _COST[4:]),
            "y = 1 if for some g c_g < map_g r",
        ),
        {"z_loc": [0.0], "z_slope": [0.4], "family": "laplace", "never": [0.3, 0.15]}
        | {"c_loc": [[0.2], [-0.3]], "c_slope": [[1.0], [-0.7]], "c_scale": [[0.5], [0.4]]}
        | {"map": [[[1.0]], [[0.5]]]},
        x=[[0.0], [0.0], [1.0]],
        r=[[0.1], [0.8], [2.5]],
        y=[1, 0, 0],
        joint=alternatives,
        unit="that of the mapped r",
    ),
    "members": Problem(
        "three members with two costs each",
        (
            *("z ~ uniform over the members", "c ~ family(c_loc_z, c_scale_z), k = 0, 1"),
            "y = 1 if c_k < map_zk r for both k",
        ),
        {"family": "logistic", "map": [[[1.0], [0.5]], [[0.7], [1.2]], [[0.4], [0.9]]]}
        | {"c_loc": [[0.0, -0.5], [0.8, 0.1], [-0.6, 0.4]]}
        | {"c_scale": [[0.5, 0.3], [0.4, 0.6], [0.3, 0.25]]},
        x=[[0.0], [0.0], [0.0]],
        r=[[0.5], [0.8], [-2.5]],
        y=[1, 0, 1],
        joint=members,
        unit="that of the mapped r",
    ),
    "kernel": Problem(
        "k of an implicit model, two coordinates and one revenue",
        (
            *(_PRIOR, "k ~ N(0, I)", "r ~ N(dr_loc + loading k, dr_scale)"),
            *(_COST + ", j = 0, 1", "y = 1 if c_j < k_j for both j"),
        ),
        {"z_loc": [0.0], "z_slope": [0.4], "family": "normal"}
        | {"loading": [0.8, 0.5], "dr_loc": 0.1, "dr_scale": 0.4}
        | {"c_loc": [0.0, 0.2], "c_slope": [0.7, -0.5], "c_scale": [0.5, 0.6]},
        x=[[0.0], [0.0], [1.0]],
        r=[[0.9], [-0.6], [0.2]],
        y=[0, 1, 1],
        joint=kernel,
        unit="that of k",
    ),
    "times": Problem(
        "times: exact, right-, left- and interval-censored, and a late entry",
        (
            *(_PRIOR, _COST + ", k = 0, 1"),
            "T = the first t with c_k < map_k r + axis_k log t for both k",
            "y = (lower, upper, entry): lower <= T <= upper, given T > entry",
        ),
        {"z_loc": [0.0], "z_slope": [0.4], "family": "normal"}
        | {"map": [[0.5], [1.0]], "axis": [[1.0], [1.5]]}
        | {"c_loc": [0.0, 0.3], "c_slope": [0.8, -0.4], "c_scale": [0.6, 0.8]},
        x=[[0.0], [0.0], [0.0], [1.0], [0.0]],
        r=[[0.4], [0.2], [-0.3], [0.1], [0.0]],
        y=[[1.5, 1.5, 0.0], [2.0, INF, 0.0], [0.0, 0.8, 0.0], [0.5, 2.5, 0.0], [3.0, 3.0, 1.0]],
        joint=times,
        unit="that of the mapped r",
    ),
    "levels": Problem(
        "four ordered levels",
        (_PRIOR, _COST + ", k = 0, 1", "y >= l if c_k < map_k r - thresholds_kl for both k"),
        {"z_loc": [0.0], "z_slope": [0.4], "family": "logistic", "map": [[1.0], [0.6]]}
        | {"thresholds": [[0.0, 0.7, 1.9], [0.0, 1.1, 1.6]]}
        | {"c_loc": [0.0, -0.8], "c_slope": [1.0, 0.6], "c_scale": [0.3, 0.4]},
        x=[[0.0], [0.0], [0.0], [1.0]],
        r=[[0.3], [0.6], [1.2], [0.9]],
        y=[0, 1, 2, 3],
        joint=levels,
        unit="that of the mapped r",
    ),
}
