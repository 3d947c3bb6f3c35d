"""Values of a wrong type, and the arguments for which some of them are right."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: What is right all the same for an argument, of one function or of all: kinds of `WRONG`.
ACCEPTED: dict[str, Any] = {
    "num_samples": ("None",),
    "patience": ("None",),
    "schedule": ("None",),
    "clip_norm": ("None", "a number", "a large number"),
    "learning_rate": ("None", "a number", "a large number"),
    "learn_units.r": ("a half",),
    "epochs": ("None",),
    "batch_size": ("None",),
    "callback": ("a class", "a function"),
    "checkpoint": ("text",),
    "progress": ("a bool",),
    "memory": ("a number", "a large number"),
    "revenues": ("a half",),
    "alpha": ("a number", "a negative number", "a large number"),
    "margin": ("a number", "a large number", "a bool"),
    "tolerance": ("a number", "a large number", "a bool"),
    "directions": ("a dict",),
    "quantiles": ("an empty list",),
    "groups": ("text",),
    "plot_survival.groups": ("None",),
    "plot_survival.time_name": ("text",),
    "horizon": ("a number", "a large number"),
    "times": ("None",),
    "GCMSurvival.sample_times.y": ("None",),
    "name": ("text",),
    "label": ("text",),
    "latent_name": ("text",),
    "outcome_name": ("text",),
    "revenue_name": ("text",),
    "feature_name": ("text",),
    "band_name": ("text", "None"),
    "base_rate": ("a number", "a negative number", "a large number"),
    "percent": ("a bool",),
    "folder": ("text",),
    "metrics": ("a dict",),
    "title": ("text",),
    "target": ("text",),
    "event": ("text",),
    "source": ("text",),
    "above": ("a number", "a negative number", "a large number", "a bool"),
    "event_shape": ("an empty list",),
    "shape": ("an empty list",),
    "hidden": ("None", "an empty list"),
    "alternatives": ("None",),
    "GCM.cost_family": ("None",),
    "posterior.y": ("None",),
    "cost_posterior.y": ("None",),
    "to_arviz.y": ("None",),
    "early_stopping": ("a bool", "None"),
    "ordered": ("an empty list",),
    "settings": ("None",),
    "categorical_features": ("None", "an empty list"),
    "positive": ("None", "a bool"),
    "class_weight": ("an empty list", "a dict"),
    "monotonic_cst": ("None", "a dict"),
    "verbose": "all",
    "warm_start": ("a bool",),
    "random_state": ("None", "a bool"),
    "sample_weight": ("None", "a number", "a large number", "a bool"),
    "below": ("a bool",),
    "estimator.cdf.values": ("a number", "a negative number", "a large number", "a bool"),
    "GCMOrdinal.levels": ("None",),
    "ordinal.explain.above": ("a bool",),
    "draws": ("a half",),
    "plot_cost_density.r": ("a number", "a negative number", "a large number", "a bool"),
    "plot_feature_curve.rows": "all",
    "audit_table.X": ("a half", "complex"),
    "render_model.model": "all",
    "render_model.model_args": "all",
    "render_model.model_kwargs": ("a dict",),
    "compare_assumptions.strict": ("a dict",),
    "compare_assumptions.implicit": ("a dict",),
    "compare_assumptions.response": ("None",),
    "compare_assumptions.epochs": ("None",),
    "export.batch": ("None",),
    # Read beside `data` alone; or handed on as they are.
    "settings of fit.memory": "all",
    "learn_units.moments": "all",
    "max_plate_nesting": "all",
    "vectorize_particles": "all",
    "x_names": "all",
    "r_names": "all",
    "sampler": "all",
    "simulation_based_calibration.sites": "all",
}

_ENDLESS: list[Any] = [1.0]
_ENDLESS.append(_ENDLESS)
with warnings.catch_warnings():  # of prototypes
    warnings.simplefilter("ignore")
    _NESTED = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])
    _QUANTISED = torch.quantize_per_tensor(torch.ones(3, 2), 0.5, 0, torch.quint8)
#: Values that hardly any argument can have, by what they are.
WRONG: dict[str, Any] = {
    "text": "0.5",
    "a list of a name": ["adult"],
    "None": None,
    "a number": 3.7,
    "a negative number": -2,
    "a large number": 10**40,
    "NaN": float("nan"),
    "a bool": True,
    "a half": torch.full((3, 2), 0.5, dtype=torch.bfloat16),
    "complex": torch.ones(3, 2, dtype=torch.complex64),
    "quantised": _QUANTISED,
    "nested": _NESTED,
    "a list of itself": _ENDLESS,
    "beyond float64": [[10**400]],
    "objects": np.array([object(), None]),
    "a dict": {"a": 1},
    "a class": int,
    "a function": len,
    "an empty list": [],
    "a nested list": [[1, 2], [3]],
}


def _matrix(name: str, dim: str) -> list[tuple[Callable[[Tensor], Tensor], str]]:
    """What is wrong with a matrix of rows, and the error."""
    return [
        (lambda t: t[:, :1], f"{name} has 1 columns, the model was built for {dim}="),
        (lambda t: t * float("nan"), f"{name} must be finite, got .* NaN"),
        (lambda t: t[:0], f"{name} has no rows"),
    ]


_SHORTER: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (lambda t: t[:3], "row counts differ: .* has 3")
]
#: Rows that cannot be used, by argument.
DEFECTS: dict[str, list[tuple[Callable[[Tensor], Tensor], str]]] = {
    "x": _matrix("x", "x_dim"),
    "r": _matrix("r", "r_dim") + _SHORTER,
    "k": _matrix("k", "k_dim") + _SHORTER,
    "revenues": _matrix("revenues", "r_dim"),
    "y": [
        *_SHORTER,
        (lambda t: t * float("nan"), "y must be finite, got .* NaN"),
        (lambda t: t + 1.0, r"y must be 0 or 1 for response='binary', got \[?2"),
    ],
}
