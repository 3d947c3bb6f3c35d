"""Times of events as an outcome: what a survival estimator does with y, and what it predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_consistent_length

from pyro_gcm._utils.options import flag
from pyro_gcm._utils.validation import ArrayLike, vector
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.estimators.concordance import harrell_concordance
from pyro_gcm.estimators.estimator import MonotoneEstimator
from pyro_gcm.estimators.event_times import Codes, event_times
from pyro_gcm.estimators.kinds import outcomes_of
from pyro_gcm.estimators.step_free import curves
from pyro_gcm.estimators.targets import row_weights
from pyro_gcm.models import GCM

if TYPE_CHECKING:
    from typing_extensions import Self

Array = npt.NDArray[np.float64]
#: Most times at which curves are kept where none are named.
_CURVE_TIMES = 256


class TimeOutcome(MonotoneEstimator):
    """An estimator of the time of an event, whose risk is monotone."""

    response = "survival"
    predicts_probability = True
    model_: GCM
    unique_times_: Array
    event_codes_: Codes | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table X of n rows and the times of their events.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: what is known of the times, [n]. Right-censored times are a column of events
            (whether they came) and one of times: in a structured array, as scikit-survival has it,
            or in a DataFrame, as a pair (event, time), with a third part for delayed entry, or as
            the columns of one array. Events are booleans, 0 and 1, or 1 and 2 as in R, of which a
            warning tells; they are found by these values, or by the name "event", in any order. Any
            other censoring is a `data.SurvivalTimes(lower, upper)`: two columns are never bounds.
        :param sample_weight: weights of the rows, [n], at least 0; equal ones by default.
        :raises TypeError: for columns that are neither numbers, text nor categories, and for y of
            another form.
        :raises ValueError: for wrong shapes, values or options, and impossible times.
        """
        columns = self._columns_to_fit(X)
        known = self.event_codes_ if self.warm_start and hasattr(self, "model_") else None
        times, codes = event_times(y, known)
        check_consistent_length(columns[0].is_missing, times.lower)
        weight = row_weights(sample_weight, times.lower.numpy())
        seen = torch.cat([times.lower, times.upper])
        seen = seen[(seen > 0.0) & seen.isfinite()]
        if not len(seen):
            raise ValueError("y must have a time above 0")
        self._learn(columns, times.columns(), weight)
        self.event_codes_ = codes
        self.unique_times_ = _spread(np.unique(seen.numpy()))
        return self

    def predict(self, X: Any) -> Array:
        """The risk of each row, [n]: the probability that its event comes by the horizon."""
        return self._predict(X)

    def predict_survival_function(
        self, X: Any, return_array: bool = False, *, times: ArrayLike | None = None
    ) -> Any:
        """Pr(T > t) of each row over time, without steps.

        :param X: a table of n rows.
        :param return_array: return the probabilities at the times, [n, T], in place of functions.
        :param times: above 0, in the units of y, [T]; by default `unique_times_`.
        :returns: an array [n] of functions with `x`, the times in rising order, `y`, their
            probabilities, and a call for any time up to the last: exact at the times, and linear
            between them.
        :raises ValueError: for times that are not above 0.
        """
        at, survival = self._survival(X, times)
        return survival if flag("return_array", return_array) else curves(at, survival, 1.0)

    def predict_cumulative_hazard_function(
        self, X: Any, return_array: bool = False, *, times: ArrayLike | None = None
    ) -> Any:
        """-log Pr(T > t) of each row over time; see `predict_survival_function`."""
        at, survival = self._survival(X, times)
        with np.errstate(divide="ignore"):
            hazard = 0.0 - np.log(survival)
        return hazard if flag("return_array", return_array) else curves(at, hazard, 0.0)

    def _survival(self, X: Any, times: ArrayLike | None) -> tuple[Array, Array]:
        """Rising times [T], and Pr(T > t), [n, T]."""
        rows = self._rows(X)
        if times is None:
            at = self.unique_times_
        else:
            at = np.unique(vector("times", times).double().numpy())
            if not (at > 0.0).all():
                raise ValueError(f"times must be above 0, got {at.min():g}")
        return at, self.model_.predictive(*rows).survival(at).double().cpu().numpy()

    def predict_quantile(self, X: Any, levels: ArrayLike) -> Array:
        """The times by which the event has come with given probabilities, [n, L].

        :param X: a table of n rows.
        :param levels: probabilities strictly between 0 and 1, [L].
        """
        rows = self._rows(X)
        found: Array = self.model_.predictive(*rows).quantile(levels).double().cpu().numpy()
        return found

    def predict_cured(self, X: Any) -> Array:
        """The probability that the event never comes, [n]; 0 with `cured=None`."""
        rows = self._rows(X)
        found: Array = self.model_.predictive(*rows).cured_fraction().double().cpu().numpy()
        return found

    def predict_median(self, X: Any) -> Array:
        """The time by which the event has come with probability 1/2, [n]."""
        median: Array = self.predict_quantile(X, [0.5])[:, 0]
        return median

    def sample_times(
        self, X: Any, y: Any = None, *, num_samples: int = 1000, seed: int = 0
    ) -> Array:
        """Draws of the time of each event, [S, n]: given what was seen of it, where y is given.

        For a right-censored row they lie after its time, for an interval-censored one in its
        interval; inf is an event that never comes.

        :param X: a table of n rows.
        :param y: what was seen of their times, in any form that `fit` takes; None for nothing.
        :param num_samples: number S of draws, independent and exact.
        :param seed: of the draws.
        """
        x, r = self._rows(X)
        seen = None if y is None else outcomes_of(self, y)
        options: Any = {"num_samples": num_samples, "seed": seed, "progress": False}
        found: Array = self.model_.posterior(x, r, seen, **options)["t"].double().cpu().numpy()
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Harrell's concordance of the risks with exact and right-censored times.

        :raises ValueError: for times of other kinds, and if no two rows can be compared.
        """
        risk, times = self.predict(X), outcomes_of(self, y)
        check_consistent_length(risk, times.lower)
        weight = row_weights(sample_weight, risk)
        _check_right_censored(times)
        event = times.is_exact.numpy()
        return harrell_concordance(times.lower.numpy(), event, risk, weight)


def _spread(times: Array) -> Array:
    """The times themselves, or quantiles of so many of them, with the first and the last."""
    if len(times) <= _CURVE_TIMES:
        return times
    return times[np.linspace(0, len(times) - 1, _CURVE_TIMES).round().astype(int)]


def _check_right_censored(times: SurvivalTimes) -> None:
    if not (times.is_exact | times.upper.isinf()).all():
        raise ValueError(f"y must have exact and right-censored times for a score, got {times!r}")
