"""How a predictor is called: with x and r, or with one matrix of both."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn

#: Ways to ask a predictor; "matrix" has the columns of x and of r.
ADAPTERS = (
    "predict(x, r)",
    "call(x, r)",
    "predict_proba(matrix)",
    "predict(matrix)",
    "call(matrix)",
)


def adapter_of(predictor: Any) -> str:
    """Which of `ADAPTERS` a predictor needs, told from its methods and their parameters.

    :raises TypeError: for what cannot be called.
    :raises ValueError: if the parameters do not tell.
    """
    kind = type(predictor).__name__
    if inspect.isclass(predictor):
        raise TypeError(f"predictor is the class {predictor.__name__}, pass an object of it")
    if callable(getattr(predictor, "predict", None)):
        method, name = predictor.predict, "predict"
    elif callable(predictor):
        method = predictor.forward if isinstance(predictor, nn.Module) else predictor
        name = "call"
    else:
        raise TypeError(
            f"predictor must be a function of (x, r) or have a method predict, got {kind}"
        )
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not places:
        raise ValueError(
            f"cannot tell from its parameters how {kind} is called: pass adapter=, one of "
            f"{list(ADAPTERS)}"
        )
    if len(places) > 1 and (places[1].default is inspect.Parameter.empty or places[1].name == "r"):
        return f"{name}(x, r)"
    if name == "predict" and hasattr(predictor, "predict_proba"):
        return "predict_proba(matrix)"
    return f"{name}(matrix)"


def of_x_and_r(
    predictor: Any,
    adapter: str,
    columns: Sequence[int] | None,
    x_dim: int,
    r_dim: int,
    names: Sequence[str] | None = None,
) -> Callable[[Any, Any], Any]:
    """The predictor as a function of x and r, arrays or tensors.

    :param columns: positions of the columns of r in the one matrix; by default where the predictor
        knows them by name, or else the last.
    :param names: those of the columns of x and of r, where both are known.
    :raises TypeError: if the predictor has no such method.
    :raises ValueError: for columns that do not fit.
    """
    name = adapter.split("(")[0]
    method = predictor if name == "call" else getattr(predictor, name, None)
    if not callable(method):
        raise TypeError(f"predictor {type(predictor).__name__} cannot be called as {adapter}")
    if "matrix" not in adapter:
        if columns is not None:
            raise ValueError(f"columns is for predictors of one matrix, this one is {adapter}")
        return method
    features = _features(predictor)
    order = _order(features, names, columns, x_dim, r_dim)

    def function(x: Any, r: Any) -> Any:
        if isinstance(x, Tensor):
            matrix: Any = torch.cat([x, r], 1)[:, torch.from_numpy(order).to(x.device)]
        else:
            matrix = np.concatenate([x, r], 1)[:, order]
            if features is not None and len(features) == x_dim + r_dim:
                matrix = pd.DataFrame(matrix, columns=features)
        values = method(matrix)
        if adapter != "predict_proba(matrix)":
            return values
        if np.ndim(values) != 2 or values.shape[1] != 2:
            raise ValueError(
                f"predict_proba must give two columns, got shape {np.shape(values)}: pass a "
                "function of (x, r) that picks the probability to be checked"
            )
        return values[:, 1]

    return function


def _order(
    features: list[str] | None,
    names: Sequence[str] | None,
    columns: Sequence[int] | None,
    x_dim: int,
    r_dim: int,
) -> npt.NDArray[np.int64]:
    """Where each column of the matrix is in [x, r]: by name if both sides have names."""
    if features is not None and names is not None:
        if sorted(features) != sorted(names):
            raise ValueError(f"predictor takes the columns {features}, x and r have {list(names)}")
        found = [features.index(name) for name in names[x_dim:]]
        if columns is not None and list(columns) != found:
            raise ValueError(
                f"columns must be {found}, where the predictor has those of r, got {columns}"
            )
        return np.array([list(names).index(name) for name in features])
    total = x_dim + r_dim
    places = list(range(x_dim, total)) if columns is None else list(columns)
    if len(places) != r_dim or len(set(places)) != r_dim or not set(places) <= set(range(total)):
        raise ValueError(
            f"columns must be the {r_dim} different positions of r in 0..{total - 1}, got {columns}"
        )
    others = [place for place in range(total) if place not in places]
    return np.argsort(others + places)


def _features(predictor: Any) -> list[str] | None:
    """The names of the columns a predictor was trained on, if it had any."""
    names = getattr(predictor, "feature_names_in_", None)
    # LightGBM makes names up where it was given an array.
    if names is None or all(re.fullmatch(r"Column_\d+", str(name)) for name in names):
        return None
    return [str(name) for name in names]
