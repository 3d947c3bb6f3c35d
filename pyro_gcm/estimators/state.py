"""The fitted state of an estimator: it reads tables as in `fit`, and is plain data to save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from numbers import Real
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted

from pyro_gcm._utils.names import known_name
from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import told_once, warn_user
from pyro_gcm.data.frames import as_frame
from pyro_gcm.data.tables import Table, read_table
from pyro_gcm.estimators.encoding import ColumnEncoding
from pyro_gcm.estimators.table_encoding import TableEncoding
from pyro_gcm.estimators.targets import Array, Values
from pyro_gcm.io.tree import plain
from pyro_gcm.models import GCM, IGCM

if TYPE_CHECKING:  # scikit-learn has no types: without these every attribute would be Any
    from typing_extensions import Self

    class BaseEstimator:
        """What the base class gives every estimator."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Options by name."""

        def set_params(self, **params: Any) -> Self:
            """Change options."""

        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        """The accuracy of a classifier."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """Return the accuracy."""

    class RegressorMixin:
        """The R² of a regressor."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """Return R²."""
else:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: F401

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
    unique_times_: Array
    #: Of each group of rows by predicted spread evenly spaced quantiles of the outcomes' ranks in
    #: predictions out of fold, or None; and the smallest spread of each group but the first.
    ranks_: Array | None = None
    spreads_: Array

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

    def _read(self, X: Any) -> Table:
        """The columns that the model may read."""
        return read_table(X, self)

    @property
    def directions_(self) -> list[int]:
        """For each column of fit +1 if the prediction rises with it, -1 if it falls, else 0."""
        check_is_fitted(self)
        codes, known = self.encoding_.columns, self.model_.response.directions
        orders = iter(known or [1] * len(codes))
        return [code.sign * next(orders) if code.sign else 0 for code in codes]

    def _columns(self, X: Any) -> Table:
        """The columns of a table in the order of the training rows.

        They are found by name, in any normal form of Unicode; by position where one of the two has
        no names, with a warning. The messages are those of scikit-learn.

        :raises ValueError: for a column that is missing or unknown, and another number of columns.
        """
        check_is_fitted(self)
        known, owner = getattr(self, "feature_names_in_", None), type(self).__name__
        table, count = self._read(X), self.n_features_in_
        if table.names is not None and known is not None:
            these = [known_name(name, known) for name in table.names]
            these = these if len(set(these)) == len(these) else table.names
            place, message = {name: at for at, name in enumerate(these)}, ""
            for what, some, others in (
                ("unseen at fit time", place, {*known}),
                ("seen at fit time, yet now missing", known, place),
            ):
                if strange := [f"- {name}\n" for name in some if name not in others]:
                    message += f"Feature names {what}:\n" + "".join(strange)
            if message:
                start = "The feature names should match those that were passed during fit.\n"
                raise ValueError(start + message)
            table = Table([table[place[name]] for name in known], list(known))
        elif len(table) != count:
            size = f"X has {len(table)} features"
            raise ValueError(f"{size}, but {owner} is expecting {count} features as input")
        elif table.names not in (None, positions := [*map(str, range(count))]):
            warn_user(f"X has feature names, but {owner} was fitted without feature names")
        elif known is not None and [*known] != positions:
            message = "X does not have valid feature names"
            warn_user(f"{message}, but {owner} was fitted with feature names")
        for code, column in zip(self.encoding_.columns, table, strict=True):
            if code.kind != "number":
                code.warn_of_unknown(column)
        return table

    def as_read(self, X: Any) -> Any:
        """A table whose columns with a direction have the numbers, or the levels, of `fit`.

        A table of another kind may have neither: Arrow and polars give levels of a category no
        order, a file gives them as text, and booleans with gaps come as objects.

        :param X: a table of n rows.
        :returns: the columns of `fit` in their order, a DataFrame of pandas; X itself where it has
            no names.
        """
        import pandas as pd

        columns, frame = self._columns(X), as_frame(X)
        if frame is None or columns.names is None:
            return X
        given: pd.DataFrame = frame.to_pandas().rename(
            columns=partial(known_name, known=columns.names)
        )
        found = given[columns.names].copy()
        for name, column, code in zip(columns.names, columns, self.encoding_.columns, strict=True):
            if code.sign and code.kind == "number":
                found[name] = code.numbers(column)
            elif code.sign:
                found[name] = pd.Categorical(column.as_labels(), code.levels, ordered=True)
        return found

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
