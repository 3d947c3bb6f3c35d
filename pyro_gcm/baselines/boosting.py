"""Gradient boosting with monotone constraints, from four libraries."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.validation import (
    ArrayLike,
    as_tensor,
    matrix,
    one_of,
    same_rows,
    vector,
)
from pyro_gcm.baselines.baseline import device_of

Options = dict[str, Any]
Array = np.ndarray[Any, Any]


class _Library(NamedTuple):
    module: str
    estimator: str  # followed by "Classifier" or "Regressor"
    breaking: str  # options under which predictions need not be monotone
    trees: Callable[[Any], int]  # of an estimator that stopped early: up to the best one
    defaults: Options = {}
    patience: str = "early_stopping_rounds"
    # (inputs, outcomes) -> arguments of `fit` that stop early on these rows
    unseen: Callable[[Array, Array], Options] = lambda inputs, outcomes: {
        "eval_set": [(inputs, outcomes)],
        "verbose": False,
    }
    constraints: str = "monotone_constraints"  # 1 for an increasing column, 0 for a free one
    sequence: Callable[..., Any] = tuple  # of the constraints; xgboost accepts no list


_LIBRARIES = {
    "sklearn": _Library(
        "sklearn.ensemble",
        "HistGradientBoosting",
        "loss categorical_features",
        lambda estimator: max(1, int(np.argmax(estimator.validation_score_))),  # 0: no tree
        patience="n_iter_no_change",
        unseen=lambda inputs, outcomes: {"X_val": inputs, "y_val": outcomes},
        constraints="monotonic_cst",
    ),
    "xgboost": _Library(
        "xgboost",
        "XGB",
        "objective num_class booster feature_types",
        lambda estimator: int(estimator.best_iteration) + 1,
        {"n_jobs": 1},
    ),
    "lightgbm": _Library(
        "lightgbm",
        "LGBM",
        "objective objective_type app application loss num_class num_classes linear_tree "
        "linear_trees categorical_feature cat_feature categorical_column cat_column "
        "categorical_features pred_early_stop quant_train_renew_leaf forcedsplits_filename "
        "forced_splits_filename forced_splits_file fs forced_splits config config_file",
        lambda estimator: int(estimator.best_iteration_),
        {"verbosity": -1, "n_jobs": 1},
        unseen=lambda inputs, outcomes: {"eval_X": inputs, "eval_y": outcomes},
    ),
    "catboost": _Library(
        "catboost",
        "CatBoost",
        "loss_function objective classes_count langevin cat_features text_features "
        "embedding_features",
        lambda estimator: int(estimator.tree_count_),
        # With monotone constraints, catboost 1.2 gets the mean that it starts from wrong when it
        # drops the trees after the best one: it starts from 0, and y is centred.
        {
            **{"verbose": False, "allow_writing_files": False},
            **{"boost_from_average": False, "thread_count": 1},
        },
        sequence=list,
    ),
}


class MonotoneBoosting:
    """Gradient-boosted trees of [x, r] that are non-decreasing in every revenue.

    This is not a torch module. Inputs are not standardised, since trees do not depend on units.

    :param library: "sklearn" (`HistGradientBoosting*`), or "xgboost", "lightgbm" or "catboost",
        which `pip install pyro-gcm[boosting]` installs.
    :param response: "binary" (log loss; `predict` returns Pr(y = 1)) or "continuous" (squared
        error; `predict` returns the mean).
    :param seed: seed of the library's random choices.
    :param options: options of the library's estimator under its own names. It runs on one thread,
        unless `n_jobs` (catboost: `thread_count`) says otherwise; scikit-learn's always.
    :raises ValueError: for another response, for options that are set here, and for those that may
        break monotonicity (another loss, linear models, categorical columns, trees that are left
        out or leaves that are renewed).
    :raises ImportError: if the library is not installed.

    Example::

        >>> x, r = torch.randn(60, 2), torch.rand(60, 1)
        >>> model = MonotoneBoosting(max_iter=5).fit(x, r, r[:, 0] > 0.5)
        >>> model.predict(x, r).shape
        torch.Size([60])
    """

    def __init__(
        self,
        library: Literal["sklearn", "xgboost", "lightgbm", "catboost"] = "sklearn",
        *,
        response: Literal["binary", "continuous"] = "binary",
        seed: int = 0,
        **options: Any,
    ) -> None:
        # "quantile" is refused: the libraries have no pinball loss whose level varies by row.
        one_of("response", response, ["binary", "continuous"])
        self.library, self._library = library, _LIBRARIES[library]
        for reason, names in (
            ("is set here", ["random_state", self._library.constraints]),
            ("may break monotonicity", self._library.breaking.split()),
        ):
            for name in options.keys() & {*names}:
                raise ValueError(f"{name} must be left out of the options, since it {reason}")
        module = import_module(self._library.module)
        kind = "Classifier" if response == "binary" else "Regressor"
        self._make = getattr(module, self._library.estimator + kind)
        self.response, self.seed = response, seed
        self.options = self._library.defaults | options
        self.trees: int | None = None
        self._columns: tuple[int, int] | None = None

    def fit(
        self,
        x: ArrayLike,
        r: ArrayLike,
        y: ArrayLike,
        *,
        validation: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        patience: int = 50,
    ) -> MonotoneBoosting:
        """Train on rows x [n, x_dim], r [n, r_dim] and y [n] (0 or 1 if the response is binary).

        :param validation: (x, r, y) of other rows to stop early on: training ends when their loss
            has not fallen for `patience` trees, predictions use the trees up to the lowest loss,
            and the attribute `trees` is their number (None without validation rows).
        :param patience: number of trees, at least 1; without validation rows it has no effect.
        :raises ValueError: for wrong shapes or values, before training starts.
        """
        sizes = as_tensor("x", x).shape[-1], as_tensor("r", r).shape[-1]
        inputs, outcomes = self._rows(x, r, y, sizes)
        if self.library in ("xgboost", "catboost"):
            _check_float32(inputs, sizes[0], self.library)
        columns = self._library.sequence([0] * sizes[0] + [1] * sizes[1])
        centred = self.library == "catboost" and self.response == "continuous"
        offset = float(outcomes.mean()) if centred else 0.0
        options = {"random_state": self.seed, self._library.constraints: columns}
        arguments = Options()
        if validation is not None:
            unseen, known = self._rows(*validation, sizes)
            arguments = self._library.unseen(unseen, known - offset)
            options[self._library.patience] = patience
            if self.library == "sklearn":
                options["early_stopping"] = True
        estimator = self._make(**{**self.options, **options})
        with self._threads():
            self.estimator = estimator.fit(inputs, outcomes - offset, **arguments)
        self.trees = None if validation is None else self._library.trees(self.estimator)
        self._columns, self._offset = sizes, offset
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
        name, arguments = "predict_proba" if self.response == "binary" else "predict", Options()
        if self.library == "catboost":  # whose option holds for training alone
            arguments = {"thread_count": self.options["thread_count"]}
        with self._threads():
            if self.library == "sklearn" and self.trees is not None:
                # scikit-learn alone would use the trees after the best one, too.
                stages = getattr(self.estimator, f"staged_{name}")(inputs)
                predictions = next(islice(stages, self.trees - 1, None))
            else:
                predictions = getattr(self.estimator, name)(inputs, **arguments)
        if self.response == "binary":
            predictions = predictions[:, 1]
        values = torch.as_tensor(predictions, dtype=torch.float64, device=device_of(x, r))
        return values + self._offset

    def _threads(self) -> Any:
        """One for scikit-learn; the other libraries have an option for them."""
        if self.library != "sklearn":
            return nullcontext()
        from threadpoolctl import threadpool_limits

        return threadpool_limits(1, user_api="openmp")

    def _rows(
        self, x: ArrayLike, r: ArrayLike, y: ArrayLike, sizes: tuple[int, int]
    ) -> tuple[Array, Array]:
        """[x, r] and y of rows to learn from, as arrays of float64."""
        inputs = self._inputs(x, r, sizes)
        outcomes = vector("y", y)
        same_rows(x=inputs, y=outcomes)
        if self.response == "binary" and outcomes.unique().tolist() != [0.0, 1.0]:
            found = outcomes.unique().tolist()[:5]
            raise ValueError(f"y must hold 0 and 1 for response='binary', got {found}")
        return inputs.numpy(), outcomes.double().cpu().numpy()

    def _inputs(self, x: ArrayLike, r: ArrayLike, sizes: tuple[int, int]) -> Tensor:
        """[x, r] in float64 on the CPU."""
        columns = matrix("x", x, sizes[0], "x_dim"), matrix("r", r, sizes[1], "r_dim")
        same_rows(x=columns[0], r=columns[1])
        return torch.cat([part.double().cpu() for part in columns], 1)


def _check_float32(inputs: Array, x_dim: int, library: str) -> None:
    """Refuse columns that a library loses, which keeps its inputs in float32."""
    with np.errstate(over="ignore"):
        error = np.abs(inputs.astype(np.float32) - inputs).max(0)
    lost = np.flatnonzero(error > 1e-3 * np.ptp(inputs / 2.0, axis=0))
    lost = lost[np.ptp(inputs[:, lost], axis=0) > 0.0]
    if len(lost):
        name, column = ("x", lost[0]) if lost[0] < x_dim else ("r", lost[0] - x_dim)
        raise ValueError(
            f"{name} has values in column {column} that float32, in which {library} keeps them, "
            "cannot tell apart: subtract a constant, use another unit, or library='sklearn'"
        )
