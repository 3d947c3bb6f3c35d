"""A fitted estimator as plain data and models, as `pyro_gcm.save` takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from pyro_gcm._utils.plain_data import plain
from pyro_gcm.estimators.encoding import TableEncoding
from pyro_gcm.estimators.estimator import MonotoneEstimator
from pyro_gcm.estimators.scorer import Scorer


class Saved(MonotoneEstimator):
    """An estimator that `pyro_gcm.save` saves and `pyro_gcm.load` returns."""

    def saved_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options and what was learned, as plain data, and the models.

        :raises sklearn.exceptions.NotFittedError: before `fit`.
        :raises TypeError: for an option that is no plain data.
        """
        self._check_fitted()
        data = {
            "options": {
                name: plain(value, name, _pairs)
                for name, value in self.get_params(deep=False).items()
            },
            "columns": self.encoding_.as_json(),
            "features": int(self.n_features_in_),
            "names": [str(name) for name in getattr(self, "feature_names_in_", [])],
            "iterations": int(self.n_iter_),
            "training": self.training_,
        }
        if hasattr(self, "classes_"):
            data["classes"] = [self.classes_.dtype.str, self.classes_.tolist()]
        if hasattr(self, "event_column_"):
            data["event_column"] = self.event_column_
        if hasattr(self, "event_codes_"):
            data["event_codes"] = self.event_codes_ and list(self.event_codes_)
        if hasattr(self, "unique_times_"):
            data["times"] = self.unique_times_.tolist()
        models = {"model": self.model_}
        for number, model in enumerate(self.bootstrap_models_):
            models[f"bootstrap_{number}"] = model
        return data, models

    def scorer(
        self,
        *,
        keep: Sequence[str] = (),
        quantiles: Sequence[float] = (),
        level: float | None = None,
    ) -> Scorer:
        """A function of a batch of rows that can be pickled, see `Scorer`.

        :param keep: columns of the batch to copy to the result.
        :param quantiles: of y, or of the time of an event, in (0, 1).
        :param level: of bands around the prediction.
        :raises sklearn.exceptions.NotFittedError: before `fit`.
        :raises ValueError: as `Scorer` does.
        """
        return Scorer(self, keep=keep, quantiles=quantiles, level=level)

    @classmethod
    def from_saved_state(cls, data: dict[str, Any], parts: dict[str, Any]) -> Any:
        """The estimator that `saved_state` describes."""
        made = cls(**{name: _option(value) for name, value in data["options"].items()})
        made.encoding_ = TableEncoding.from_json(data["columns"])
        made.n_features_in_, made.n_iter_ = data["features"], data["iterations"]
        if not len(data["columns"]) == data["features"] == len(data["names"] or data["columns"]):
            raise ValueError("has other numbers of columns and names than it was fitted to")
        if not all(isinstance(name, str) for name in data["names"]):
            raise ValueError("has names of columns that are no text")
        if type(data["iterations"]) is not int or not isinstance(data.get("training", {}), dict):
            raise ValueError("has no number of iterations, or no summary of the training")
        made.training_ = data.get("training", {})  # folders of the first version have none
        if data["names"]:
            made.feature_names_in_ = np.array(data["names"], dtype=object)
        if "classes" in data:
            kind, values = data["classes"]
            made.classes_ = np.array(values, dtype=np.dtype(kind))
        if "times" in data:
            made.unique_times_ = np.array(data["times"])
        if "event_column" in data:
            made.event_column_ = data["event_column"]
        if data.get("event_codes"):
            made.event_codes_ = tuple(data["event_codes"])
        made.model_ = parts["model"]
        width = sum(column.width for column in made.encoding_.columns)
        if made.model_.x_dim != max(1, width):
            raise ValueError(
                f"has columns of {width} covariates for {made.model_.x_dim} of the model"
            )
        made.bootstrap_models_ = [parts[f"bootstrap_{n}"] for n in range(len(parts) - 1)]
        return made


def _pairs(value: Any, name: str) -> Any:
    """What `plain` has for an option that is a mapping, whose keys may be numbers."""
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
