"""The fitted state of an estimator, as plain data to save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from numbers import Real
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import told_once
from pyro_gcm.estimators.encoding import ColumnEncoding, TableEncoding
from pyro_gcm.estimators.targets import Array, Values
from pyro_gcm.io.tree import plain
from pyro_gcm.models import GCM, IGCM

#: What is learned and is no plain data.
_APART = ("encoding_", "model_")


class FittedState(BaseEstimator):
    """The fitted state, which `pyro_gcm.save` saves and `pyro_gcm.load` returns."""

    response: str
    #: Whether predictions are probabilities of an event.
    predicts_probability = False
    encoding_: TableEncoding
    model_: GCM | IGCM
    rows_behind_: float | None
    n_iter_: int
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]
    training_: dict[str, float]
    classes_: Values
    event_column_: int
    event_codes_: tuple[int, int] | None
    unique_times_: Array
    #: Evenly spaced quantiles of the outcomes' ranks in predictions out of fold, or None.
    ranks_: Array | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Every public method of a subclass runs on one thread, and `fit` with gradients."""
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                made = method
                if name == "fit":
                    made = told_once()(torch.inference_mode(False)(method))
                setattr(cls, name, one_thread()(made))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def saved_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options and what was learned, as plain data, and the models.

        :raises sklearn.exceptions.NotFittedError: before `fit`.
        :raises TypeError: for an option that is no plain data.
        """
        check_is_fitted(self)
        learned = {n: v for n, v in vars(self).items() if n.endswith("_") and n not in _APART}
        data = {
            "options": {n: plain(v, n, _pairs) for n, v in self.get_params(deep=False).items()},
            "columns": [asdict(column) for column in self.encoding_.columns],
            "learned": {
                name: [value.dtype.str, value.tolist()] if isinstance(value, np.ndarray) else value
                for name, value in learned.items()
            },
        }
        return data, {"model": self.model_}

    @classmethod
    def from_saved_state(cls, data: dict[str, Any], parts: dict[str, Any]) -> Any:
        """The estimator that `saved_state` describes."""
        made = cls(**{name: _option(value) for name, value in data["options"].items()})
        made.encoding_ = TableEncoding([ColumnEncoding(**each) for each in data["columns"]])
        for name, value in data["learned"].items():
            if isinstance(value, list):
                first, second = value
                value = np.array(second, first) if isinstance(first, str) else (first, second)
            setattr(made, name, value)
        made.model_ = parts["model"]
        return made


def _pairs(value: Any, name: str) -> Any:
    """The plain form of an option that is a mapping, whose keys may be numbers."""
    if not isinstance(value, Mapping):
        return NotImplemented
    keys = [key if isinstance(key, str | Real) else str(key) for key in value]
    entries = zip(keys, value.values(), strict=True)
    return {"pairs": [[plain(key, name), plain(entry, name, _pairs)] for key, entry in entries]}


def _option(value: Any) -> Any:
    """The option of which `plain` was made, but for the kind of a sequence."""
    if isinstance(value, dict):
        return {_option(key): _option(entry) for key, entry in value["pairs"]}
    return [_option(entry) for entry in value] if isinstance(value, list) else value
