"""What cannot be drawn is refused by the name of the argument, before a figure is made."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch
from plot_toys import SURVIVAL, R, X, trained

from pyro_gcm import GCM
from pyro_gcm import plots as p
from pyro_gcm.models import MemberGCM

#: Arguments with which each figure is drawn; `model` are options of a trained one.
RIGHT: dict[Any, dict[str, Any]] = {
    p.plot_cost_density: {"model": {}, "x": X[0]},
    p.plot_cost_pairs: {"model": {}, "x": X[0]},
    p.plot_response_curves: {"model": {}, "x": X[:2]},
    p.plot_ranks: {"ranks": [1, 2], "num_draws": 9},
    p.plot_survival: SURVIVAL,
}
NAN = torch.nan
OMITTED = "r must be omitted for this model"
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (p.plot_cost_density, {"x": X[:2]}, r"x must be one row, \[3\] or \[1, 3\], got \(2, 3\)"),
    (p.plot_cost_density, {"x": X[0, :2]}, "x has 2 columns"),
    (p.plot_cost_pairs, {"x": [NAN] * 3}, "x must be finite"),
    (p.plot_cost_density, {"r": [1.0, 2.0, 3.0]}, "r has 3 columns"),
    (p.plot_cost_density, {"r": [1.5], "model": {"response": "quantile"}}, "strictly between 0"),
    (p.plot_cost_density, {"r": R[0], "model": {"kind": "igcm"}}, OMITTED),
    (p.plot_cost_density, {"r": R[0], "model": MemberGCM(3, 2)}, OMITTED),
    (p.plot_cost_density, {"r": R[0], "model": GCM(3, 2, response="survival")}, OMITTED),
    (p.plot_cost_density, {"draws": torch.zeros(5, 3)}, "draws must be numbers of shape"),
    (p.plot_cost_pairs, {"draws": torch.zeros(5, 2, 2)}, "draws must be numbers of shape"),
    (p.plot_cost_density, {"draws": torch.full((5, 1, 2), NAN)}, "draws must be numbers"),
    *((p.plot_cost_density, {"cost": cost}, "cost must be an index") for cost in (2, -1)),
    (p.plot_cost_density, {"cost": (0, 0)}, "cost must be an index in"),
    (p.plot_cost_pairs, {"pair": (0, 2)}, "pair must be an index in"),
    (p.plot_cost_pairs, {"pair": (1, 1)}, "pair must be two different costs"),
    (p.plot_cost_pairs, {"masses": (0.5, 1.0)}, r"masses must be .* in \(0, 1\)"),
    (p.plot_cost_pairs, {"r": R[:2]}, "r has 4 columns"),
    (p.plot_response_curves, {"probability": 1.0}, r"probability must .* in \(0, 1\), got 1.0"),
    (p.plot_response_curves, {"r": [[1.0, 2.0]] * 3}, "r must have one row or, like x, 2 rows"),
    (p.plot_response_curves, {"labels": ["one"]}, "labels a name for each"),
    (p.plot_response_curves, {"x": X[:8]}, "x must have at most 7 rows, .* got 8"),
    (p.plot_ranks, {"ranks": [0.5, 1.0]}, r"ranks must be integers in 0\.\.9, got \[0.5\]"),
    (p.plot_ranks, {"ranks": [3, 10]}, r"ranks must be integers in 0\.\.9, got \[10.0\]"),
    (p.plot_ranks, {"ranks": [[1, 2]]}, r"ranks must have shape \[rows\]"),
    (p.plot_survival, {"groups": range(60)}, "groups must be at most 7, got 60"),
]


def test_what_cannot_be_drawn_is_refused() -> None:
    for plot, wrong, message in WRONG:
        arguments = {**RIGHT[plot], **wrong}
        if isinstance(arguments.get("model"), dict):
            arguments["model"] = trained(**arguments["model"])
        with pytest.raises((TypeError, ValueError), match=message):
            plot(**arguments)
        assert not plt.get_fignums(), f"a figure was made before {wrong} was checked"
