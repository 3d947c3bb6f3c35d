"""Calling conventions of predictors: with x and r, or with one matrix of both."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

#: Ways to call a predictor; a "matrix" has the columns of x and of r.
ADAPTERS = (
    "predict(x, r)",
    "call(x, r)",
    "predict_proba(matrix)",
    "predict(matrix)",
    "call(matrix)",
)


def adapter_of(predictor: Any) -> str:
    """Determine from the methods of a predictor and their parameters which of `ADAPTERS` it needs.

    :raises TypeError: if the predictor cannot be called.
    :raises ValueError: if the parameters are ambiguous.
    """
    kind = type(predictor).__name__
    if inspect.isclass(predictor):
        raise TypeError(f"predictor is the class {predictor.__name__}, pass an instance of it")
    if callable(getattr(predictor, "predict", None)):
        method, name = predictor.predict, "predict"
    elif callable(predictor):
        method = predictor.forward if isinstance(predictor, nn.Module) else predictor
        name = "call"
    else:
        raise TypeError(f"predictor must be callable or have a method predict, got {kind}")
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional:
        raise ValueError(
            f"cannot determine from its parameters how to call {kind}: pass adapter=, one of "
            f"{list(ADAPTERS)}"
        )
    if any(p.default is p.empty or p.name == "r" for p in positional[1:2]):
        return f"{name}(x, r)"
    if name == "predict" and hasattr(predictor, "predict_proba"):
        return "predict_proba(matrix)"
    return f"{name}(matrix)"


def event_column(predictor: Any) -> int:
    """The column of `predict_proba` that has the event.

    It is the second one, but for a `GCMClassifier` with another positive class, by itself, at the
    end of a Pipeline, or as the best one of a search.
    """
    steps = getattr(predictor, "steps", None)
    inner = steps[-1][-1] if steps else getattr(predictor, "best_estimator_", None)
    return int(getattr(predictor, "event_column_", 1)) if inner is None else event_column(inner)


def of_x_and_r(
    predictor: Any,
    adapter: str,
    columns: Sequence[int] | None,
    x_dim: int,
    r_dim: int,
    names: Sequence[str] | None = None,
) -> Callable[[Any, Any], Any]:
    """Return the predictor as a function of x and r, which are arrays or tensors.

    :param columns: positions of the columns of r in the matrix. By default they are found by name
        if the predictor knows its columns, and otherwise are the last.
    :param names: names of the columns of x and r, if both are known.
    :raises TypeError: if the predictor does not have the method.
    :raises ValueError: for invalid columns.
    """
    name = adapter.split("(")[0]
    method = predictor if name == "call" else getattr(predictor, name, None)
    if not callable(method):
        raise TypeError(f"predictor {type(predictor).__name__} cannot be called as {adapter}")
    if "matrix" not in adapter:
        if columns is not None:
            raise ValueError(f"columns requires a predictor of one matrix, this one is {adapter}")
        return method
    features = _features(predictor)
    order = _order(features, names, columns, x_dim, r_dim)

    def function(x: Any, r: Any) -> Any:
        if isinstance(x, Tensor):
            matrix: Any = torch.cat([x, r], 1)[:, torch.from_numpy(order).to(x.device)]
        else:
            matrix = np.concatenate([x, r], 1)[:, order]
            if features is not None and len(features) == x_dim + r_dim:
                import pandas as pd

                matrix = pd.DataFrame(matrix, columns=features)
        values = method(matrix)
        if adapter != "predict_proba(matrix)":
            return values
        if np.ndim(values) != 2 or values.shape[1] != 2:
            raise ValueError(
                f"predict_proba must return two columns, got shape {np.shape(values)}: pass a "
                "function of (x, r) that selects the probability to be audited"
            )
        return values[:, event_column(predictor)]

    return function


def _order(
    features: list[str] | None,
    names: Sequence[str] | None,
    columns: Sequence[int] | None,
    x_dim: int,
    r_dim: int,
) -> npt.NDArray[np.int64]:
    """Position in [x, r] of each column of the matrix, by name if both sides have names."""
    if features is not None and names is not None:
        if sorted(features) != sorted(names):
            raise ValueError(f"predictor takes the columns {features}, x and r have {list(names)}")
        found = [features.index(name) for name in names[x_dim:]]
        if columns is not None and list(columns) != found:
            raise ValueError(
                f"columns must be {found}, the positions of r in the predictor, got {columns}"
            )
        return np.array([list(names).index(name) for name in features])
    total = x_dim + r_dim
    places = list(range(x_dim, total)) if columns is None else list(columns)
    others = [place for place in range(total) if place not in places]
    if len(places) != r_dim or len(others) != x_dim:
        raise ValueError(
            f"columns must be the {r_dim} different positions of r in 0..{total - 1}, got {columns}"
        )
    return np.argsort(others + places)


def _features(predictor: Any) -> list[str] | None:
    """Names of the columns on which a predictor was trained, if it has any."""
    names = getattr(predictor, "feature_names_in_", None)
    # LightGBM invents names if it is trained on an array.
    if names is None or all(re.fullmatch(r"Column_\d+", str(name)) for name in names):
        return None
    return [str(name) for name in names]
