"""The common base of the estimators: from a table to a fitted model and its predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from pyro_gcm._utils.validation import share, warn_user
from pyro_gcm.data.tables import Table, signs_of
from pyro_gcm.estimators.after_training import (
    calibrate,
    check_calibrate,
    standard_error,
    warn_of_directions,
)
from pyro_gcm.estimators.directions import Directions, categories, named_columns
from pyro_gcm.estimators.encoding import ColumnEncoding
from pyro_gcm.estimators.plans import plan_of
from pyro_gcm.estimators.state import FittedState
from pyro_gcm.estimators.table_encoding import TableEncoding
from pyro_gcm.estimators.targets import Array, row_weights, target_column
from pyro_gcm.estimators.training import Trained, TrainingRows, trained
from pyro_gcm.inference.training_data import copies, weighed
from pyro_gcm.models.members import CROSSED_ROWS
from pyro_gcm.responses import Response

#: One over the number of rows behind a prediction, in units of the variance between members, and
#: in units of one over the root of the number of rows, below which it does not go.
_OF_MEMBERS, _LEAST = 1.9, 1.5
#: Training rows that are asked how far members disagree, at most.
_BAND_ROWS = 4000


class GivenRows(NamedTuple):
    """What `fit` was given, of rows with a weight above 0.

    :param y: outcomes, [n, ...].
    :param weight: of the rows, [n], or None for equal ones.
    :param groups: a number for each row, [n], that rows share which are held out together, or None.
    """

    columns: Table
    y: Any
    weight: Array | None
    groups: Tensor | None


class Bands(NamedTuple):
    """Bands around predictions.

    :param lower: [n], and `upper`: [n]; monotone as predictions are.
    :param rows: how many rows stand behind each prediction.
    :param level: share of true probabilities, or means, that lie inside in simulations.
    """

    lower: Array
    upper: Array
    rows: float
    level: float


def in_numpy(values: Tensor) -> Array:
    """The predictions of a model as an array."""
    return values.double().cpu().numpy()


@dataclass(kw_only=True, repr=False, eq=False)
class MonotoneEstimator(FittedState):
    """A model of one kind behind the interface of scikit-learn, and the options of every kind.

    A subclass adds its own options as fields of a dataclass, whose constructor scikit-learn reads,
    and says in `fit` what y is; `plans.plan_of` makes a model of the options.
    """

    monotonic_cst: Directions = None
    categorical_features: Any = "from_dtype"
    hidden: int | None = None
    alternatives: int | None = None
    costs: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    early_stopping: bool | Literal["auto"] = "auto"
    random_state: Any = 0
    device: str = "auto"
    verbose: bool = False

    # Fitting

    def _learn(
        self, given: GivenRows, response: str | Response, signs: list[int] | None = None
    ) -> None:
        """Learn the encoding of the columns and train the model.

        :param given: with y as the model takes it.
        :param response: as `GCM` takes it, or what `_trained` makes one of.
        :param signs: of each column, by default those of `monotonic_cst`.
        """
        columns, y, weight, groups = given
        if signs is None:
            cst = [0] * len(columns) if self.monotonic_cst is None else self.monotonic_cst
            signs = signs_of("monotonic_cst", cst, len(columns), columns.names)
        chosen = categories(self.categorical_features, columns, columns.names)
        each = zip(columns, signs, chosen, strict=True)
        encoding = TableEncoding([ColumnEncoding.learn(*column) for column in each])
        concave = named_columns(getattr(self, "concave", None), len(columns), columns.names)
        for at in concave:
            encoding.columns[at].start_at_zero()
        places = [encoding.revenues.index(at) for at in concave]
        if empty := [column.label for column in columns if column.is_missing.all()]:
            warn_user(f"X has no value in {', '.join(empty)}: nothing can be learned from it")
        same = [code.label for code in encoding.columns if code.sign and code.low == code.high]
        if same := [label for label in same if label not in empty]:
            warn_user(
                f"X has one value in {', '.join(same)}, which has a direction: what other values "
                "do cannot be learned"
            )
        weights = None if weight is None else torch.tensor(weight)
        target = y if isinstance(response, str) else response.target(y)
        outcome = None if y.dim() > 1 else target.double().numpy()
        labels = None if groups is None else groups.numpy()
        x, r = encoding.learned(columns, outcome, weight, labels)
        widths = [code.width for code in encoding.columns if code.width] or [1]
        rows = TrainingRows(x, r, y, weights, widths, encoding.ordered, groups, places)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        common: Any = {"device": self.device, "progress": bool(self.verbose)}
        fitted = self._trained(response, rows, seed=seed, **common)
        # All that follows is after the training: a fit that fails leaves the last one.
        self.n_features_in_ = len(columns)
        self.__dict__.pop("feature_names_in_", None)
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)
        self.encoding_, history = encoding, fitted.result.rows
        self.model_ = fitted.model
        self.n_iter_ = len(history)
        self.training_ = {"rows": len(y), "loss": float(history[-1]["loss"])}
        self._look_back(fitted, rows)
        self.rows_behind_ = self._rows_behind(rows)

    def _trained(
        self, response: str | Response, rows: TrainingRows, *, seed: int, **common: Any
    ) -> Trained:
        """A model of the options, trained on the rows.

        :param common: options of every `fit`.
        """
        plan = plan_of(self, response, rows, seed)
        wanted = getattr(self, "calibrate", False)
        check_calibrate(wanted, plan.left_out)
        fitted = trained(plan, rows, seed=seed, **common)
        calibrate(wanted, fitted, rows)
        return fitted

    def _look_back(self, fitted: Trained, rows: TrainingRows) -> None:
        """Keep the loss of rows that members left out, and compare directions with the outcomes."""
        encoding, signs = self.encoding_, self.directions_
        constrained = [encoding.columns[at] if signs[at] else None for at in encoding.revenues]
        if rows.groups is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of copies, which the training tells of
                same = copies(*rows[:3])
            rows = rows._replace(groups=same and same[0])
        if fitted.crossed is None:
            rows = rows.take(torch.arange(0, len(rows.y), 1 + len(rows.y) // CROSSED_ROWS.stop))

        def asked(function: Callable[..., Tensor], r: Tensor) -> Tensor:
            return fitted.out_of_fold(function, rows.x, r, rows.y)

        warn_of_directions(partial(asked, self._residual), rows, constrained)
        if fitted.crossed is not None:
            loss = -asked(self._log_prob, rows.r)
            error = standard_error(loss - loss.mean(), rows.groups) / len(loss)
            self.training_ |= {"out_of_fold_loss": float(loss.mean()), "its_error": float(error)}

    def _residual(self, model: Any, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
        """The outcome less its prediction, for each row, [n]."""
        return model.response.target(y).double() - model.predict(x, r).double().cpu()

    def _log_prob(self, model: Any, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the probability, or density, of the outcome, [n]."""
        found: Tensor = model.log_prob(x, r, y)
        return found.double().cpu()

    def _given(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> GivenRows:
        """The rows of a weight above 0 that `fit` was given.

        :param y: an array or tensor of n rows.
        """
        columns = self._read(X)
        check_consistent_length(columns[0].is_missing, y)
        rows, weight, number = len(y), row_weights(sample_weight, y), None
        index = np.arange(rows)
        if weight is not None:
            index, weight = (part.numpy() for part in weighed(weight, rows))
            weight = None if (weight == weight[0]).all() else weight
            columns, y = columns.take(index), y[index]
        if groups is not None:
            labels = target_column("groups", groups)
            check_consistent_length(range(rows), labels)
            known, place = np.unique(labels[index], return_inverse=True)
            if len(known) < 2:
                got = f"got {known.tolist()[0]!r} alone"
                raise ValueError(f"groups must have two labels or more, {got}")
            number = torch.from_numpy(place)
        return GivenRows(columns, y, weight, number)

    # Predicting

    def _rows(self, X: Any) -> tuple[Tensor, Tensor]:
        """Covariates and revenues of the model, of n rows."""
        columns = self._columns(X)  # first, for it says where nothing was fitted
        return self.encoding_(columns)

    def _predictive(self, X: Any) -> Any:
        """The distributions of y that the model predicts for n rows."""
        rows = self._rows(X)
        return self.model_.predictive(*rows)

    def _predict(self, X: Any) -> Array:
        return self._of_rows(*self._rows(X))

    def _of_rows(self, x: Tensor, r: Tensor) -> Array:
        """Predictions [n] of the model."""
        return in_numpy(self.model_.predict(x, r))

    # Bands: what a share, or a mean, that was seen in so many rows leaves open

    def predict_bands(self, X: Any, level: float = 0.9) -> Bands:
        """Bands around the predictions: Pr(y = 1), or the mean of y.

        They are as wide as if the prediction had been observed in `rows_behind_` rows: Wilson's
        interval of a probability, and of a mean so many standard errors. That number is found from
        how far members disagree about the training rows, by a factor that held in simulations
        (docs/guides/uncertainty.md); it is the same for every row, so that both
        ends rise, or fall, as the prediction does. A band holds no share of the outcomes.

        :param X: a table of n rows.
        :param level: share of true values inside.
        :raises ValueError: for a model without members.
        """
        level = share("level", level)
        x, r = self._rows(X)
        return Bands(*self._ends(self._of_rows(x, r), x, level), self._behind(), level)

    def _rows_behind(self, rows: TrainingRows) -> float | None:
        """How many rows stand behind a prediction, or None without members."""
        if self.model_.members < 2:
            return None
        some = rows.take(torch.arange(0, len(rows.y), 1 + len(rows.y) // _BAND_ROWS))
        draws = in_numpy(self.model_.predict_draws(some.x, some.r))
        with np.errstate(divide="ignore", invalid="ignore"):  # where no outcome varies
            each = draws.var(0, ddof=1) / self._variance(draws.mean(0), some.x)
        weights = rows.weights.double()
        count = float(weights.sum() ** 2 / weights.square().sum())
        found = 1.0 / max(_OF_MEMBERS * float(np.nanmean(each)), _LEAST / math.sqrt(count))
        return max(1.0, found)  # where y hardly varies

    def _behind(self) -> float:
        if self.rows_behind_ is None:
            raise ValueError(
                "bands need a GCM with prior='members', two or more, whose members disagree"
            )
        return self.rows_behind_

    def _variance(self, mean: Array, x: Tensor) -> Array:
        """Of single outcomes with these means, [n]: at most that of a share of `_most`."""
        return mean * (self._most - mean)

    @property
    def _most(self) -> float:
        """The largest prediction, of a probability or of a mean place."""
        return 1.0

    def _ends(self, mean: Array, x: Tensor, level: float) -> tuple[Array, Array]:
        """The ends of bands around predictions, [n]: of Wilson's interval."""
        square, rows = NormalDist().inv_cdf(0.5 + 0.5 * level) ** 2, self._behind()

        def lower(p: Array, q: Array) -> Array:  # without cancellation
            root = np.sqrt(square * (square + 4.0 * rows * p * q))
            return 2.0 * rows * p * p / (2.0 * rows * p + square + root)

        p = mean / self._most
        return self._most * lower(p, 1.0 - p), self._most * (1.0 - lower(1.0 - p, p))

    def _levels(self, level: float, goal: float, x: Tensor) -> Array:
        """The predictions whose upper, and whose lower end is `goal`, [2, n]."""
        goals = np.full(len(x), float(goal))
        error = np.sqrt(np.maximum(0.0, self._variance(goals, x)) / self._behind())
        half = NormalDist().inv_cdf(0.5 + 0.5 * level) * error
        return np.stack([goals - half, goals + half])
