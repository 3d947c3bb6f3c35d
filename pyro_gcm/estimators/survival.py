"""`GCMSurvival`: the time of an event, with a risk that is strictly monotone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor

from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.validation import ArrayLike, one_of, vector
from pyro_gcm.estimators.estimator import GivenRows, in_numpy
from pyro_gcm.estimators.event_times import NoPairs, event_times
from pyro_gcm.estimators.kinds import outcomes_of
from pyro_gcm.estimators.reasons import Reasons
from pyro_gcm.estimators.targets import Array, row_weights
from pyro_gcm.responses import Response, Survival

if TYPE_CHECKING:
    from typing_extensions import Self

#: Most times at which curves are kept where none are named.
_CURVE_TIMES = 256


@dataclass(kw_only=True, repr=False, eq=False)
class OverTime(Reasons):
    """A GCM whose predictions are about an event by a horizon, and about every other time."""

    horizon: float | None = None

    predicts_probability = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _learn_times(
        self, given: GivenRows, response: Response, signs: list[int] | None = None
    ) -> None:
        """Train the model on times, and keep those of curves: quantiles of times in y.

        :param given: with y [n, 3] or wider, of which (lower, upper, entry) come first.
        """
        seen = given.y[:, :2]
        at = np.unique(seen[(seen > 0.0) & seen.isfinite()].numpy())
        if not len(at):
            raise ValueError("y must have a time above 0")
        self._learn(given, response, signs)
        if len(at) > _CURVE_TIMES:  # with the first and the last
            at = at[np.linspace(0, len(at) - 1, _CURVE_TIMES).round().astype(int)]
        self.unique_times_ = at

    @property
    def horizon_(self) -> float:
        """The time that predictions speak of."""
        check_is_fitted(self)
        response: Any = self.model_.response
        return float(getattr(response, "parts", [response])[0].reference)

    def predict(self, X: Any) -> Array:
        """The risk of each row, [n]: the probability that its event comes by the horizon."""
        return self._predict(X)

    @overload
    def predict_survival_function(
        self, X: Any, return_array: Literal[False] = ..., *, times: ArrayLike | None = ...
    ) -> npt.NDArray[np.object_]: ...

    @overload
    def predict_survival_function(
        self, X: Any, return_array: Literal[True], *, times: ArrayLike | None = ...
    ) -> Array: ...

    def predict_survival_function(
        self, X: Any, return_array: bool = False, *, times: ArrayLike | None = None
    ) -> Array | npt.NDArray[np.object_]:
        """Pr(T > t) of each row over time, without steps.

        :param X: a table of n rows.
        :param return_array: return the probabilities at the times, [n, T], in place of functions.
        :param times: at least 0, in the units of y, [T]; by default `unique_times_`.
        :returns: an array [n] of functions with `x`, the times in rising order, `y`, their
            probabilities, and a call for any time up to the last: exact at the times, and linear
            between them.
        :raises ValueError: for times below 0.
        """
        predictive, at = self._predictive(X), self._curve_times(times)
        survival = in_numpy(predictive.survival(at))
        if return_array:
            return survival
        return np.array([TimeCurve(at, of_row) for of_row in survival], dtype=object)

    def _curve_times(self, times: ArrayLike | None) -> Array:
        """Rising times, [T]."""
        if times is None:
            return self.unique_times_
        return np.unique(vector("times", times).double().numpy())


@register("estimators.GCMSurvival")
@dataclass(kw_only=True, repr=False, eq=False)
class GCMSurvival(OverTime):
    """The time of an event, parts of which may be censored, with risks that rise, or fall, in X.

    The model is a `pyro_gcm.GCM` with response "survival". `predict` is a risk, the probability of
    the event by a horizon; `predict_survival_function` is Pr(T > t) as a function of time. Where a
    column raises the risk, it lowers the whole survival curve and brings every quantile forward.

    Columns of X may be numbers, booleans, text and categories, with missing values, in a DataFrame
    of pandas, polars or Arrow or in an array. What a model reads of them is learned in `fit` and
    kept in `encoding_`. DataFrames are matched by the names of their columns, in any order. A level
    that was not there in `fit`, or that was rare, has a level of its own with the other rare ones;
    without rare ones it counts as the average row.

    A value that is missing has a level of its own in every column where training rows lack one, and
    otherwise counts as the median or the average row. For any fixed set of missing columns the
    prediction is monotone in the others. Nothing is promised between a row with a value and the
    same row without it.

    :param monotonic_cst: directions of the RISK. +1 for a column in which the event comes earlier
        as it rises (and survival falls), -1 in which it comes later, and 0 for the others: an array
        with an entry a column, or a mapping from names. Booleans and ordered categories may be
        constrained too.
    :param horizon: the time that `predict`, `predict_bands`, `required`, `explain` and
        `response_curve` speak of, in the units of y; by default the median of the times in the
        training rows, censored or not.
    :param cured: whether there are rows whose event never comes, so that survival curves end above
        0: None for no, "constant" for one such probability, or "conditional" for one that depends
        on the free columns. Data tell them from late events only if rows were followed for long;
        the model has one alternative and one cost then, unless told otherwise.
    :param categorical_features: "from_dtype" makes text and categorical columns of a DataFrame
        categories; a mask, indices or names say which columns are; None for none.
    :param prior: "members", in which z is one of several networks, or a prior of `pyro_gcm.GCM`:
        "conditional" is the paper's model.
    :param members: number of members.
    :param hidden: width of the hidden layers.
    :param alternatives, costs: numbers of latent costs, see `pyro_gcm.GCM`.
    :param dropout: share of hidden units that are left out in a step, for members.
    :param epochs: passes over the rows, at most, if training stops early.
    :param batch_size: rows of a step.
    :param learning_rate: of the optimiser. What is None so far follows from the size of the table.
    :param early_stopping: whether each row is left out by two of the members, whose score on it
        says when to stop (`inference.cross_fit`); of another prior, whether a training on 85 % of
        the rows says how many epochs are best for one on all. "auto" does so with 20 rows
        or more, of members up to 20,000, if `epochs` is None.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param verbose: whether training shows its progress.

    After `fit`: `model_`, a `GCM` whose x and r are those of `encoding_`; `unique_times_`, the
    times of survival functions by default, at most 256 of those in y; `rows_behind_`; `n_iter_`,
    the epochs of the last training; `n_features_in_`, and `feature_names_in_` for names that are
    text.

    >>> import numpy as np
    >>> import pandas as pd
    >>> from pyro_gcm.estimators import GCMSurvival
    >>> X = pd.DataFrame({"nodes": range(40), "hormone": ["yes", "no"] * 20})
    >>> came, time = np.arange(40) % 3 > 0, 50.0 - np.arange(40)
    >>> model = GCMSurvival(monotonic_cst={"nodes": 1}, epochs=2).fit(X, (came, time))
    >>> curve = model.predict_survival_function(X[:1])[0]
    >>> bool(curve(30.0) < curve(10.0) < curve(0.0) == 1.0)
    True
    """

    cured: str | None = None

    response = "survival"

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to a table X of n rows and the times of their events.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: what is known of the times, [n]. Right-censored times are a column of events
            (whether they occurred) and one of times: in a structured array, as in scikit-survival,
            or in a DataFrame, as a pair (event, time), with a third part for delayed entry, or as
            the columns of one array. Events are booleans, or 0 and 1; they are found
            by these values, or by the name "event", in any order. Other numbers may be causes, and
            are refused. Any other censoring is a `data.SurvivalTimes(lower, upper)`: two columns
            are never bounds.
        :param sample_weight: weights of the rows, [n], at least 0, of which only ratios matter;
            equal ones by default. Rows of weight 0 are left out.
        :param groups: a label for each row, [n], such as a customer of which there are several:
            rows with the same one are held out together. By default copies of a row are.
        :raises TypeError: for columns that are neither numbers, text nor categories, and for y of
            another form.
        :raises ValueError: for wrong shapes, values or options, and impossible times.
        """
        times = event_times(y)
        given = self._given(X, times.columns(), sample_weight, groups)
        if self.cured is not None:
            one_of("cured", self.cured, ["constant", "conditional"])
        self._learn_times(given, Survival(horizon=self.horizon))
        return self

    def _residual(self, model: Any, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
        """Of exact and right-censored rows: whether it occurred, less the cumulative hazard."""
        lower, upper, entry = y.unbind(-1)
        later = torch.stack([lower, torch.full_like(upper, math.inf), entry], -1)
        hazard = -self._log_prob(model, x, r, later)
        came = lower == upper
        return torch.where(came | upper.isinf(), came.double() - hazard, 0.0)

    def predict_quantile(self, X: Any, levels: ArrayLike) -> Array:
        """The times by which the event has come with given probabilities, [n, L].

        :param X: a table of n rows.
        :param levels: probabilities strictly between 0 and 1, [L].
        """
        return in_numpy(self._predictive(X).quantile(levels))

    def predict_cured(self, X: Any) -> Array:
        """The probability that the event never comes, [n]; 0 with `cured=None`."""
        return in_numpy(self._predictive(X).cured_fraction())

    def predict_median(self, X: Any) -> Array:
        """The time by which the event has come with probability 1/2, [n]."""
        return self.predict_quantile(X, [0.5])[:, 0]

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
        return in_numpy(self.model_.posterior(x, r, seen, **options)["t"])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Harrell's concordance of the risks with exact and right-censored times.

        :raises ValueError: for times of other kinds, and if no two rows can be compared.
        """
        risk, times = self.predict(X), outcomes_of(self, y)
        check_consistent_length(risk, times.lower)
        weight = row_weights(sample_weight, risk)
        if not (times.is_exact | times.upper.isinf()).all():
            raise ValueError(
                f"y must have exact and right-censored times for a score, got {times!r}"
            )
        event = times.is_exact.numpy()
        return harrell_concordance(times.lower.numpy(), event, risk, weight)


class TimeCurve:
    """A survival function of one row: exact at its times and linear between them.

    :param x: times, rising, [T].
    :param y: Pr(T > t) at the times, [T].
    """

    def __init__(self, x: Array, y: Array) -> None:
        self.x, self.y = x, y

    @property
    def domain(self) -> tuple[float, float]:
        """The times between which it can be called."""
        return 0.0, float(self.x[-1])

    def __call__(self, time: Any) -> Any:
        """Values at times of any shape.

        :raises ValueError: for times outside of `domain`.
        """
        at = np.asarray(time, dtype=np.float64)
        low, high = self.domain
        if not ((at >= low) & (at <= high)).all():
            raise ValueError(
                f"time must lie in [{low:g}, {high:g}], got values from {at.min():g} to "
                f"{at.max():g}: name later times in times= of the method that made the curve"
            )
        values = np.interp(at, np.append(0.0, self.x), np.append(1.0, self.y))
        return values if at.ndim else float(values)

    def __repr__(self) -> str:
        return f"TimeCurve({len(self.x)} times up to {self.x[-1]:g})"


def harrell_concordance(
    time: Array, event: npt.NDArray[np.bool_], risk: Array, weight: Array | None = None
) -> float:
    """The share of comparable pairs of rows in which the higher risk had the earlier event.

    A pair is comparable if the event of one row occurred before the time of the other, or at the
    same time if the other was censored then. Equal risks count half (Harrell et al. 1996).

    :param time: of the event or of censoring, [n].
    :param event: whether the event occurred, [n].
    :param risk: [n].
    :param weight: of the rows, [n]; a pair has the product of theirs.
    :raises NoPairs: if no pair is comparable.
    """
    weight = np.ones(len(time)) if weight is None else weight
    right = total = 0.0
    for row in np.flatnonzero(event):
        later = (time > time[row]) | ((time == time[row]) & ~event)
        ahead = risk[row] - risk[later]
        of_pairs = weight[row] * weight[later]
        right += float(of_pairs @ ((ahead > 0.0) + 0.5 * (ahead == 0.0)))
        total += float(of_pairs.sum())
    if total == 0.0:
        raise NoPairs("y must have a row whose event occurred before the time of another row")
    return right / total
