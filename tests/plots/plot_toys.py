"""Small models trained on toy data, and helpers that read figures."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet

from pyro_gcm import GCM, IGCM, fit

_g = torch.Generator().manual_seed(5)
X = torch.randn(200, 3, generator=_g)
R = 50.0 + 20.0 * torch.rand(200, 2, generator=_g)
_NOISE = torch.randn(200, generator=_g)
MARGIN = X[:, 0] + (R.sum(1) - 120.0) / 5.0 + _NOISE
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
of_two_costs = pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": torch.float64},
        {"cost_family": "laplace"},
        {"p0": "conditional"},
        {"prior": "categorical"},
        {"prior": "standard", "objective": "joint"},
        {"revenue_map": "positive_linear"},
        {"revenue_map": "sigmoid"},
        {"response": "continuous"},
    ],
    ids=lambda options: " ".join(map(str, options.values())) or "plain",
)


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
