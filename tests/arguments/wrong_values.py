"""Values of a wrong type, and the arguments for which some of them are right."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: Kinds of `WRONG` that are right all the same for some arguments, of one function or of all.
_ACCEPTED: list[tuple[Any, str]] = [
    (
        ("None",),
        "num_samples patience schedule epochs batch_size plot_survival.groups times settings "
        "GCMSurvival.sample_times.y alternatives GCM.cost_family posterior.y cost_posterior.y "
        "to_arviz.y GCMOrdinal.levels "
        "export.batch",
    ),
    (
        ("text",),
        "checkpoint groups plot_survival.time_name name label latent_name outcome_name "
        "revenue_name feature_name folder title target event source",
    ),
    (("text", "None"), "band_name"),
    (("None", "a number", "a large number"), "clip_norm learning_rate"),
    (("a number", "a large number"), "memory horizon"),
    (("a number", "a large number", "a bool"), "margin tolerance"),
    (("a number", "a negative number", "a large number"), "alpha base_rate"),
    (
        ("a number", "a negative number", "a large number", "a bool"),
        "above estimator.cdf.values plot_cost_density.r",
    ),
    (("None", "a number", "a large number", "a bool"), "sample_weight"),
    (("a half",), "learn_units.r revenues draws"),
    (("a half", "complex"), "audit_table.X"),
    (("a class", "a function"), "callback"),
    (("a bool",), "progress percent warm_start below ordinal.explain.above"),
    (("a bool",), "calibrate"),
    (("a bool", "None"), "early_stopping positive random_state"),
    (
        ("a dict",),
        "directions metrics",
    ),
    (("None", "a dict"), "monotonic_cst"),
    (("an empty list", "a dict"), "class_weight"),
    (("an empty list",), "quantiles event_shape shape ordered"),
    (("None", "an empty list"), "hidden categorical_features"),
    # What is not looked at, read beside `data` alone, or handed on as it is.
    (
        "all",
        "verbose plot_feature_curve.rows x_names "
        "r_names sampler simulation_based_calibration.sites learn_units.moments "
        "max_plate_nesting vectorize_particles",
    ),
]
ACCEPTED = {name: kinds for kinds, names in _ACCEPTED for name in names.split()}
#: Read beside `data` alone.
ACCEPTED["settings of fit.memory"] = "all"

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
