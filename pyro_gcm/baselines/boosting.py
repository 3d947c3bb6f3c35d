"""Gradient boosting with monotone constraints, from three libraries."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from pyro_gcm._validation import ArrayLike, as_tensor, matrix, one_of, same_rows, vector
from pyro_gcm.baselines.baseline import device_of


class _Library(NamedTuple):
    module: str
    estimator: str  # followed by "Classifier" or "Regressor"
    constraints: str  # its argument with 1 for an increasing column and 0 for a free one
    breaking: tuple[str, ...]  # options under which predictions need not be monotone


_LIBRARIES = {
    "sklearn": _Library(
        "sklearn.ensemble",
        "HistGradientBoosting",
        "monotonic_cst",
        ("loss", "categorical_features"),
    ),
    "xgboost": _Library(
        "xgboost",
        "XGB",
        "monotone_constraints",
        ("objective", "num_class", "booster", "feature_types"),
    ),
    "lightgbm": _Library(
        "lightgbm",
        "LGBM",
        "monotone_constraints",
        (
            *("objective", "objective_type", "app", "application", "loss"),
            *("num_class", "num_classes", "linear_tree", "linear_trees"),
            *("categorical_feature", "cat_feature", "categorical_column", "cat_column"),
            "categorical_features",
        ),
    ),
}


class MonotoneBoosting:
    """Gradient-boosted trees of [x, r] that are non-decreasing in every revenue.

    This is not a torch module. Inputs are not standardised, since trees do not depend on units.

    :param library: "sklearn" (`HistGradientBoosting*`), or "xgboost" or "lightgbm", which
        `pip install pyro-gcm[boosting]` installs.
    :param response: "binary" (log loss; `predict` returns Pr(y = 1)) or "continuous" (squared
        error; `predict` returns the mean).
    :param seed: seed of the library's random choices.
    :param options: options of the library's estimator under its own names.
    :raises ValueError: for another response or library, for options that are set here, and for
        those that may break monotonicity (another loss, linear models, categorical columns).
    :raises ImportError: if the library is not installed.

    Example::

        >>> x, r = torch.randn(60, 2), torch.rand(60, 1)
        >>> model = MonotoneBoosting(max_iter=5).fit(x, r, r[:, 0] > 0.5)
        >>> model.predict(x, r).shape
        torch.Size([60])
    """

    def __init__(
        self,
        library: Literal["sklearn", "xgboost", "lightgbm"] = "sklearn",
        *,
        response: Literal["binary", "continuous"] = "binary",
        seed: int = 0,
        **options: Any,
    ) -> None:
        one_of("library", library, list(_LIBRARIES))
        # "quantile" is refused: the libraries have no pinball loss whose level varies by row.
        one_of("response", response, ["binary", "continuous"])
        self._library = _LIBRARIES[library]
        for reason, names in (
            ("is set here", ("random_state", self._library.constraints)),
            ("may break monotonicity", self._library.breaking),
        ):
            for name in options.keys() & {*names}:
                raise ValueError(f"{name} must be left out of the options, since it {reason}")
        try:
            module = import_module(self._library.module)
        except ImportError as error:
            raise ImportError(
                f"library={library!r} needs {library}: pip install pyro-gcm[boosting]"
            ) from error
        kind = "Classifier" if response == "binary" else "Regressor"
        self._make = getattr(module, self._library.estimator + kind)
        self.response = response
        self.seed = seed
        self.options = ({"verbosity": -1} if library == "lightgbm" else {}) | options
        self._columns: tuple[int, int] | None = None

    def fit(self, x: ArrayLike, r: ArrayLike, y: ArrayLike) -> MonotoneBoosting:
        """Train on rows x [n, x_dim], r [n, r_dim] and y [n] (0 or 1 if the response is binary).

        :raises ValueError: for wrong shapes or values, before training starts.
        """
        sizes = _width("x", x), _width("r", r)
        inputs = self._inputs(x, r, sizes)
        outcomes = vector("y", y)
        same_rows(x=inputs, y=outcomes)
        if self.response == "binary" and outcomes.unique().tolist() != [0.0, 1.0]:
            found = outcomes.unique().tolist()[:5]
            raise ValueError(f"y must hold 0 and 1 for response='binary', got {found}")
        # A tuple, since xgboost does not accept a list.
        constraints = {self._library.constraints: (0,) * sizes[0] + (1,) * sizes[1]}
        estimator = self._make(random_state=self.seed, **constraints, **self.options)
        self.estimator = estimator.fit(inputs.numpy(), outcomes.double().cpu().numpy())
        self._columns = sizes
        return self

    def predict(self, x: ArrayLike, r: ArrayLike) -> Tensor:
        """Pr(y = 1) or the mean of y, float64 [B], for x [B, x_dim] and r [B, r_dim].

        The result is on the device of the first tensor among them.

        :raises RuntimeError: if the model has not been fitted.
        :raises ValueError: for wrong shapes or values that are not finite.
        """
        if self._columns is None:
            raise RuntimeError("the model has not been fitted: call fit first")
        inputs = self._inputs(x, r, self._columns).numpy()
        if self.response == "binary":
            predictions = self.estimator.predict_proba(inputs)[:, 1]
        else:
            predictions = self.estimator.predict(inputs)
        return torch.as_tensor(predictions, dtype=torch.float64, device=device_of(x, r))

    def _inputs(self, x: ArrayLike, r: ArrayLike, sizes: tuple[int, int]) -> Tensor:
        """[x, r] in float64 on the CPU."""
        columns = matrix("x", x, sizes[0], "x_dim"), matrix("r", r, sizes[1], "r_dim")
        same_rows(x=columns[0], r=columns[1])
        return torch.cat([part.double().cpu() for part in columns], 1)


def _width(name: str, value: ArrayLike) -> int:
    tensor = as_tensor(name, value)
    if tensor.dim() != 2:
        raise ValueError(f"{name} must have shape [rows, columns], got {tuple(tensor.shape)}")
    return tensor.shape[1]
