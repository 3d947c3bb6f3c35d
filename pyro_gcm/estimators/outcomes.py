"""Classes and numbers as outcomes: what a classifier and a regressor do with y."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from pyro_gcm._utils.validation import shown
from pyro_gcm.estimators.bands import check_level
from pyro_gcm.estimators.estimator import MonotoneEstimator
from pyro_gcm.estimators.targets import (
    check_labels,
    row_weights,
    target_column,
    target_numbers,
)

if TYPE_CHECKING:
    from typing_extensions import Self

Array = npt.NDArray[np.float64]
#: Numbers whose squares are finite, with room for a product or two.
_LARGEST = 1e100


class BinaryOutcome(ClassifierMixin, MonotoneEstimator):
    """A classifier of two classes; one of them is the event, whose probability is monotone."""

    response = "binary"
    predicts_probability = True
    positive: Any
    class_weight: Any
    classes_: npt.NDArray[Any]
    event_column_: int = 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table X of n rows and two classes y.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: the classes, [n]: text, numbers or booleans.
        :param sample_weight: weights of the rows, [n], at least 0; equal ones by default.
        :raises TypeError: for columns that are neither numbers, text nor categories.
        :raises ValueError: for wrong shapes, values or options, and other than two classes.
        """
        columns = self._columns_to_fit(X)
        y = target_column("y", y)
        check_consistent_length(columns[0].is_missing, y)
        check_labels("y", y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        weight = self._weighed(y, row_weights(sample_weight, y))
        classes, at = np.unique(y, return_inverse=True)
        there = np.unique(at if weight is None else at[weight > 0])
        if len(there) < 2:
            raise ValueError(
                f"y must have two classes, got one class, {classes.tolist()[there[0]]!r}, in "
                f"{len(y)} rows of positive weight"
            )
        event = self._event_among(classes.tolist())
        if self.warm_start and hasattr(self, "classes_"):
            if list(classes) != list(self.classes_):
                raise ValueError(
                    f"y must have the classes of the first fit, {self.classes_.tolist()}, in a "
                    f"warm start, got {classes.tolist()}"
                )
            if event != self.event_column_:
                raise ValueError(
                    "positive must be that of the first fit, "
                    f"{classes.tolist()[self.event_column_]!r}, in a warm start, got "
                    f"{shown(self.positive)}"
                )
        self._learn(columns, torch.from_numpy((at == event).astype(np.float32)), weight)
        self.classes_, self.event_column_ = classes, event
        return self

    def _event_among(self, classes: list[Any]) -> int:
        """Where the event stands among the two classes."""
        if self.positive is None:
            return 1
        if not isinstance(self.positive, str | Real | np.generic) or self.positive not in classes:
            raise ValueError(
                f"positive must be one of the classes {classes}, got {shown(self.positive)}"
            )
        return classes.index(self.positive)

    def _weighed(self, y: npt.NDArray[Any], weight: Array | None) -> Array | None:
        """Weights of the rows with those of their classes, or None where all are equal."""
        if self.class_weight is None:
            return weight
        try:
            of_class: Array = compute_sample_weight(self.class_weight, y)
        except (TypeError, ValueError) as error:
            raise ValueError(f"class_weight must be weights by class: {error}") from error
        if not np.isfinite(of_class).all() or (of_class < 0).any():
            raise ValueError(
                f"class_weight must have finite weights of at least 0, got {self.class_weight!r}"
            )
        return of_class if weight is None else weight * of_class

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the two classes, [n, 2], in the order of `classes_`."""
        event = self._predict(X)
        both = [1.0 - event, event]
        return np.stack(both if self.event_column_ else both[::-1], 1)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`, [n, 2]; -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The more probable class of each row, [n]."""
        happens = self._predict(X) > 0.5
        found: npt.NDArray[Any] = self.classes_[(happens == bool(self.event_column_)).astype(int)]
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class was predicted, [n] of y and weights as `fit` takes them."""
        labels = target_column("y", y)
        return float(super().score(X, labels, row_weights(sample_weight, labels)))


class RealOutcome(RegressorMixin, MonotoneEstimator):
    """A regressor; the mean of y is monotone."""

    response = "continuous"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table X of n rows and numbers y.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: numbers, [n].
        :param sample_weight: weights of the rows, [n], at least 0; equal ones by default.
        :raises TypeError: for columns that are neither numbers, text nor categories.
        :raises ValueError: for wrong shapes, values or options.
        """
        columns = self._columns_to_fit(X)
        y = target_numbers("y", y)
        check_consistent_length(columns[0].is_missing, y)
        _check_size(y)
        if len(y) < 2:
            raise ValueError("n_samples=1: at least 2 rows are needed for the spread of y")
        self._learn(columns, torch.tensor(y), row_weights(sample_weight, y))
        return self

    def predict(self, X: Any) -> Array:
        """The mean of y for each row, [n]."""
        return self._predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, with y and weights [n] as `fit` takes them."""
        numbers = target_numbers("y", y)
        return float(super().score(X, numbers, row_weights(sample_weight, numbers)))

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """The central interval of y itself, which holds a share `level` of the outcomes, [n, 2].

        Its ends are quantiles of the predictive distribution, noise of y included; compare
        `predict_bands`.

        :param X: a table of n rows.
        """
        level = check_level("level", level)
        x, r = self._rows(X)
        ends: Tensor = self.model_.predictive(x, r).interval(level)
        return ends.double().numpy()


def _check_size(y: Array) -> None:
    """Refuse numbers whose squares, or those of their differences, are none."""
    largest, spread = np.abs(y).max(), float(np.ptp(y / 2.0))
    if largest > _LARGEST or 0.0 < spread < 1.0 / _LARGEST:
        raise ValueError(
            f"y must have sizes and differences from {1 / _LARGEST:g} to {_LARGEST:g}: use "
            "another unit"
        )
