"""Small models trained on toy data, and helpers that read figures."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.data.survival_times import SurvivalTimes

_g = torch.Generator().manual_seed(5)
X = torch.randn(200, 3, generator=_g)
R = 50.0 + 20.0 * torch.rand(200, 2, generator=_g)
_NOISE = torch.randn(200, generator=_g)
MARGIN = X[:, 0] + (R.sum(1) - 120.0) / 5.0 + _NOISE
#: Draws of z, [S, B, D], and outcomes of their rows.
DRAWS = torch.randn(50, 12, 3, generator=_g)
BINARY = torch.tensor([0, 1, 1] * 4)
#: A reliability curve, and bounds by number of particles.
CURVE = pd.DataFrame(
    {
        "predicted": [0.1, 0.4, 0.8],
        "observed": [0.2, 0.35, 0.9],
        "count": [100, 50, 25],
        "standard_error": [0.04, 0.07, 0.06],
    }
)
BOUND = pd.DataFrame(
    {"num_particles": [16, 1, 4], "bound": [-0.5, -0.7, -0.6], "standard_error": [0.01, 0.03, 0.02]}
)
_RNG = np.random.default_rng(3)
TIME, RATE = _RNG.exponential(10.0, 60), _RNG.uniform(0.05, 0.15, 60)
_AT = np.linspace(1.0, 20.0, 12)
#: Predicted curves of survival, and what became of the rows.
SURVIVAL: dict[str, Any] = {
    "times": _AT,
    "survival": np.exp(-RATE[:, None] * _AT),
    "y": SurvivalTimes.right_censored(TIME, _RNG.random(60) < 0.7),
}
#: Revenues at which both outcomes have a considerable probability.
MIDDLE = [57.0, 58.0]


@functools.cache  # no test changes a model
def trained(
    kind: str = "gcm",
    *,
    response: str = "binary",
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> Any:
    """A model trained for ten short epochs; `kind` is "gcm" or "igcm"."""
    r = (R[:, :1] - 50.0) / 20.0 if response == "quantile" else R
    y = (MARGIN > 0).float() if response == "binary" else 300.0 + 50.0 * MARGIN
    objective = options.pop("objective", "conditional")
    cls = {"gcm": GCM, "igcm": IGCM}[kind]
    model = cls(3, r.shape[1], response=response, num_samples=32, **options).to(dtype)
    quick = {"epochs": 10, "batch_size": 64, "num_particles": 8, "progress": False}
    fit(model, X, r.clamp(1e-3, None), y, objective=objective, **quick)
    return model


def legend(ax: Axes) -> list[str]:
    """The texts of the legend."""
    return [text.get_text() for text in ax.get_legend().get_texts()]


def band(collection: Any) -> tuple[Any, Any, Any]:
    """x, lower and upper edge of a region drawn by `fill_between`."""
    (path,) = collection.get_paths()
    # Start, one edge, turn, the other edge backwards, end.
    count = (len(path.vertices) - 3) // 2
    one = path.vertices[1 : 1 + count]
    other = path.vertices[2 + count : 2 + 2 * count][::-1]
    np.testing.assert_array_equal(one[:, 0], other[:, 0])
    edges = np.sort([one[:, 1], other[:, 1]], axis=0)
    return one[:, 0], edges[0], edges[1]


#: Models with two costs, each compared with a revenue or with the map of the revenues.
OF_TWO_COSTS: list[dict[str, Any]] = [
    {},
    {"p0": "conditional"},
    {"revenue_map": "positive_linear"},
    {"cost_family": "laplace"},
    {"dtype": torch.float64},
    {"prior": "categorical"},
    {"prior": "standard", "objective": "joint"},
    {"revenue_map": "sigmoid"},
    {"response": "continuous"},
]


def quoted(ax: Axes, start: str = r"Pr\(.*<") -> float:
    """The probability in the legend."""
    (text,) = [text for text in legend(ax) if re.match(start, text)]
    return float(text.split("= ")[1])


def at(model: Any, limits: Any) -> Any:
    """Pr(c < limits | x) for the first row, with limits in the units of the costs."""
    with torch.no_grad():
        return float(model.cost(X[:1]).cdf(torch.as_tensor(limits, dtype=torch.float64)))


def mapped(model: Any, r: Any) -> Any:
    """Revenues in the units of the costs."""
    r = torch.tensor([r], dtype=torch.float64)
    if model.cost(X[:1]).loc.any():
        return r[0]
    with torch.no_grad():
        return model.revenue_map(model.r_standardizer(r))[0]


def contour_paths(ax: Axes) -> list[Any]:
    """Contours, from the lowest level to the highest."""
    (contours,) = [c for c in ax.collections if isinstance(c, QuadContourSet)]
    return contours.get_paths()
