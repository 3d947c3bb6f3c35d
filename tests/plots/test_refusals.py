"""What cannot be drawn is refused by the name of the argument, before a figure is made."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from plot_toys import BINARY, BOUND, CURVE, DRAWS, SURVIVAL, R, X, trained

from pyro_gcm import GCM
from pyro_gcm import plots as p
from pyro_gcm.models import MemberGCM

#: Arguments with which each figure is drawn; `model` are options of a trained one.
RIGHT: dict[Any, dict[str, Any]] = {
    p.plot_cost_density: {"model": {}, "x": X[0]},
    p.plot_cost_pairs: {"model": {}, "x": X[0]},
    p.plot_response_curves: {"model": {}, "x": X[:2]},
    p.plot_latent: {"z": DRAWS, "y": BINARY},
    p.plot_reliability: {"frame": CURVE},
    p.plot_ranks: {"ranks": [1, 2], "num_draws": 9},
    p.plot_history: {"result": pd.DataFrame({"epoch": [1], "loss": [0.7]})},
    p.plot_bound: {"frame": BOUND},
    p.plot_survival: SURVIVAL,
    p.plot_audit: {},
}
NAN = torch.nan
INDEX = r"must be the index of a cost, in 0\.\.1, got"
ONE_NUMBER = "r must be a vector of the 2 revenues, got one number"
NO_THRESHOLD = "r must be omitted for this model: "
DIMS = r"dims must be two different dimensions of z, in 0\.\.2"
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (p.plot_cost_density, {"x": X[:2]}, r"x must be one row, \[3\] or \[1, 3\], got \(2, 3\)"),
    (p.plot_cost_density, {"x": X[0, :2]}, "x has 2 columns"),
    (p.plot_cost_pairs, {"x": [NAN] * 3}, "x must be finite"),
    (p.plot_cost_density, {"r": [1.0, 2.0, 3.0]}, "r has 3 columns"),
    (p.plot_cost_pairs, {"r": R[:2]}, "r must be one row of 2 revenues, got 2 rows"),
    (p.plot_cost_pairs, {"r": 60.0}, ONE_NUMBER),
    (p.plot_cost_density, {"r": 60.0, "model": {"revenue_map": "positive_linear"}}, ONE_NUMBER),
    (p.plot_cost_density, {"r": 1.5, "model": {"response": "quantile"}}, "strictly between 0 and"),
    (p.plot_cost_density, {"r": R[0], "model": {"kind": "igcm"}}, "r must be omitted for an IGCM"),
    (p.plot_cost_density, {"r": R[0], "model": MemberGCM(3, 2)}, NO_THRESHOLD),
    (p.plot_cost_density, {"r": R[0], "model": GCM(3, 2, response="survival")}, NO_THRESHOLD),
    (p.plot_cost_density, {"draws": torch.zeros(5, 3)}, "draws must have shape"),
    (p.plot_cost_pairs, {"draws": torch.zeros(5, 2, 2)}, "draws must have shape"),
    (p.plot_cost_density, {"draws": torch.full((5, 1, 2), NAN)}, "draws must be numbers, got NaN"),
    (p.plot_cost_density, {"ax": plt}, "ax must be one matplotlib Axes, got module"),
    (p.plot_cost_pairs, {"ax": plt}, "ax must be one matplotlib Axes, got module"),
    *((p.plot_cost_density, {"cost": cost}, f"cost {INDEX}") for cost in (2, -1, True, (0, 0))),
    (p.plot_cost_pairs, {"pair": (0, 2)}, f"pair {INDEX}"),
    (p.plot_cost_pairs, {"pair": (1, 1)}, "pair must be two different costs"),
    (p.plot_cost_pairs, {"pair": (0,)}, "pair must be two costs"),
    (p.plot_cost_pairs, {"masses": (0.5, 1.0)}, r"masses must be .* in \(0, 1\)"),
    (p.plot_cost_pairs, {"masses": ()}, r"masses must be .* in \(0, 1\)"),
    (p.plot_cost_pairs, {"labels": ("one",)}, "labels must be two names"),
    (p.plot_response_curves, {"revenue": 2}, r"revenue must be an index in 0\.\.1, got 2"),
    (p.plot_response_curves, {"probability": 1.0}, r"probability must .* in \(0, 1\), got 1.0"),
    (p.plot_response_curves, {"grid": [1.0]}, "grid must have at least two values"),
    (p.plot_response_curves, {"grid": [1.0, 1.0]}, "grid must have at least two values"),
    (p.plot_response_curves, {"r": [[1.0, 2.0]] * 3}, "r must have one row or, like x, 2 rows"),
    (p.plot_response_curves, {"labels": ["one"]}, "labels must name each of the 2 rows"),
    (p.plot_response_curves, {"x": X[:8]}, "x has 8 rows, but colours distinguish at most 7"),
    (p.plot_response_curves, {"x": X[:0]}, "x has no rows"),
    (p.plot_latent, {"z": DRAWS[0, 0]}, r"z must have shape \[S, B, D\] or \[B, D\], got \(3,\)"),
    (p.plot_latent, {"y": BINARY[:5]}, r"y must have shape \(12,\), one outcome per row of z, got"),
    (p.plot_latent, {"z": DRAWS * torch.inf}, "z must be finite"),
    (p.plot_latent, {"y": BINARY * NAN}, "y must be finite"),
    *((p.plot_latent, {"dims": dims}, DIMS) for dims in ((0, 3), (1, 1), (0, 1, 2), 1)),
    (p.plot_reliability, {"frame": CURVE.drop(columns="count")}, r"no columns \['count'\]"),
    (p.plot_reliability, {"frame": CURVE.assign(count=0)}, "frame must have no count below 0"),
    (p.plot_reliability, {"frame": CURVE.assign(count=-1)}, "frame must have no count below 0"),
    (p.plot_reliability, {"frame": CURVE.assign(predicted=1.5)}, r"predicted in \[0, 1\], got val"),
    (p.plot_reliability, {"frame": CURVE.assign(observed=NAN)}, r"observed in \[0, 1\]"),
    (p.plot_reliability, {"frame": CURVE.assign(standard_error=-0.1)}, "standard_error below 0"),
    (p.plot_ranks, {"ranks": [0.5, 1.0]}, r"ranks must be integers in 0\.\.9, got \[0.5\]"),
    (p.plot_ranks, {"ranks": [3, 10]}, r"ranks must be integers in 0\.\.9, got \[10.0\]"),
    (p.plot_ranks, {"ranks": [[1, 2]]}, r"ranks must have shape \[n\], got \(1, 2\)"),
    (p.plot_ranks, {"bins": 11}, "bins must be at most the 10 different ranks, got 11"),
    (p.plot_history, {"result": pd.DataFrame({"epoch": [1]})}, r"result has no columns \['loss'\]"),
    (p.plot_bound, {"frame": [1.0, 2.0]}, "frame must be a DataFrame, got list"),
    (p.plot_bound, {"frame": BOUND[:0]}, "frame has no rows"),
    (p.plot_bound, {"frame": BOUND.assign(num_particles=0)}, "num_particles below 1: 0"),
    (p.plot_bound, {"frame": BOUND.assign(bound="low")}, "frame must be numeric in"),
    (p.plot_survival, {"y": np.ones(60)}, r"y must be data\.SurvivalTimes"),
    (p.plot_survival, {"survival": SURVIVAL["survival"].T}, r"shape \(60, 12\), got \(12, 60\)"),
    (p.plot_survival, {"times": SURVIVAL["times"][::-1]}, "times must be above 0 and rise"),
    (p.plot_survival, {"survival": 2.0 * SURVIVAL["survival"]}, r"survival must be in \[0, 1\]"),
    (p.plot_survival, {"groups": range(60)}, "groups must be at most 7, got 60"),
    (p.plot_survival, {"groups": ["a"]}, "a label for each of the 60 rows"),
    (p.plot_audit, {"audit": {}}, "audit must be a MonotonicityAudit, got dict"),
]


@pytest.mark.parametrize(("plot", "wrong", "message"), WRONG)
def test_what_cannot_be_drawn_is_refused(plot: Any, wrong: dict[str, Any], message: str) -> None:
    arguments = {**RIGHT[plot], **wrong}
    if isinstance(arguments.get("model"), dict):
        arguments["model"] = trained(**arguments["model"])
    error = TypeError if "SurvivalTimes" in message else ValueError
    with pytest.raises(error, match=message):
        plot(**arguments)
    assert not plt.get_fignums(), "a figure was made before the arguments were checked"
