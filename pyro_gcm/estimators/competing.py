"""`GCMCompetingRisks`: the first of several events, with incidences that are strictly monotone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.validation import ArrayLike, shown
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.estimators.classes import by_label
from pyro_gcm.estimators.estimator import in_numpy
from pyro_gcm.estimators.event_times import first_causes
from pyro_gcm.estimators.kinds import outcomes_of
from pyro_gcm.estimators.survival import OverTime, harrell_concordance
from pyro_gcm.estimators.targets import Array, row_weights
from pyro_gcm.responses import CompetingRisks

if TYPE_CHECKING:
    from typing_extensions import Self


@register("estimators.GCMCompetingRisks")
@dataclass(kw_only=True, repr=False, eq=False)
class GCMCompetingRisks(OverTime):
    """The time of the first of several events and which it was, such as causes of death.

    The model is a `pyro_gcm.GCM` with `responses.CompetingRisks`. `predict` is the incidence of one
    cause, the probability that it comes first and by a horizon; `predict_cumulative_incidence` has
    that of all over time, and `predict_survival_function` Pr(T > t) that none has come. A column
    that hastens cause k alone raises the incidence of k and lowers that of every other cause at
    every time; of one that hastens several only Pr(T > t) is ordered.

    Columns of X and options that are not named here are those of `GCMSurvival`.

    :param monotonic_cst: a mapping from causes to directions, {"relapse": {"dose": -1}}: +1 for a
        column that hastens the cause as it rises, -1 for one that delays it, and 0 for the others.
    :param cause: the one whose incidence `predict`, `required` and other questions are about; by
        default the first in sorted order.
    :param horizon: the time that they speak of, in the units of y; by default the median of the
        times in the training rows, censored or not.

    After `fit`: `model_`; `causes_`, their names, the one of predictions first, and otherwise what
    `GCMSurvival` has.

    >>> import numpy as np
    >>> import pandas as pd
    >>> from pyro_gcm.estimators import GCMCompetingRisks
    >>> X = pd.DataFrame({"debt": range(60), "rate": [3.0, 5.0, 4.0] * 20})
    >>> cause = np.array([None, "default", "repaid"])[np.arange(60) % 3]
    >>> model = GCMCompetingRisks(monotonic_cst={"default": {"debt": 1}}, epochs=2)
    >>> model = model.fit(X, (cause, 70.0 - np.arange(60)))
    >>> model.predict_cumulative_incidence(X[:4], times=[10.0, 30.0]).shape
    (4, 2, 2)
    """

    cause: Any = None

    response = "competing"

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to a table X of n rows and the times and causes of their first events.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: causes and times, [n], a pair or two columns of a DataFrame or of a structured
            array, in any order: causes are text, or numbers below 10, or the column is named
            "event" or "cause"; 0, False, None, NaN and text that says so are rows in which nothing
            had come by their time. Or what `SurvivalTimes.competing` returns.
        :param sample_weight: weights of the rows, [n], at least 0, of which only ratios matter;
            equal ones by default. Rows of weight 0 are left out.
        :param groups: a label for each row, [n], such as a customer of which there are several:
            rows with the same one are held out together. By default copies of a row are.
        :raises TypeError: for columns that are neither numbers, text nor categories, and for y of
            another form.
        :raises ValueError: for wrong shapes, values or options, and fewer than two causes.
        """
        times = first_causes(y)
        first = next(iter(times)) if self.cause is None else str(self.cause)
        if first not in times:
            raise ValueError(f"cause must be one of {[*times]}, got {self.cause!r}")
        causes = [first, *(cause for cause in times if cause != first)]
        columns = torch.cat([times[cause].columns() for cause in causes], 1)
        given = self._given(X, columns, sample_weight, groups)
        wanted: Any = self.monotonic_cst or {}
        if not hasattr(wanted, "items"):
            raise ValueError(
                f"monotonic_cst must be a mapping from causes to directions, got {shown(wanted)}"
            )
        wanted = {str(cause): own for cause, own in wanted.items()}
        count, names = len(given.columns), given.columns.names
        _, signs, directions = by_label(wanted, causes, 0, count, names, "causes")
        own = dict(zip(causes, directions, strict=True))
        self._learn_times(given, CompetingRisks(causes, own, horizon=self.horizon), signs)
        return self

    @property
    def causes_(self) -> list[str]:
        """The names of the causes, the one of predictions first."""
        check_is_fitted(self)
        response: Any = self.model_.response
        return list(response.names)

    def predict_cumulative_incidence(self, X: Any, times: ArrayLike | None = None) -> Array:
        """Pr(T <= t, and the cause is k) of each row, [n, T, K], in the order of `causes_`.

        :param X: a table of n rows.
        :param times: at least 0, in the units of y, [T]; by default `unique_times_`.
        """
        predictive = self._predictive(X)
        return in_numpy(predictive.incidence(self.unique_times_ if times is None else times))

    def predict_causes(self, X: Any) -> Array:
        """The probability that each cause comes first in the end, [n, K]."""
        return in_numpy(self._predictive(X).causes())

    def predict_hazard(self, X: Any, times: ArrayLike | None = None) -> Array:
        """Cause-specific hazards, [n, T, K], in 1 / unit of y; no column has a direction in them.

        :param X: a table of n rows.
        :param times: above 0, in the units of y, [T]; by default `unique_times_`.
        """
        predictive = self._predictive(X)
        return in_numpy(predictive.hazard(self.unique_times_ if times is None else times))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Concordance of `predict` with the times at which its cause came first (Wolbers 2014).

        Rows in which another cause came first never have it.

        :raises ValueError: if no two rows can be compared.
        """
        risk, times = self.predict(X), outcomes_of(self, y)
        return concordance_of(times, self.causes_[0], risk, row_weights(sample_weight, risk))

    def _residual(self, model: Any, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
        """Whether the cause came by the horizon, less its incidence; 0 where that is not known."""
        lower, upper = y.unflatten(1, (-1, 3))[..., :2].unbind(-1)
        came, reference = lower == upper, model.response.parts[0].reference.cpu()
        known = came.any(1) | (lower[:, 0] >= reference)
        happened = came[:, 0] & (lower[:, 0] <= reference)
        return torch.where(known, happened.double() - model.predict(x, r).double().cpu(), 0.0)


def concordance_of(
    times: Mapping[str, SurvivalTimes], cause: str, risk: Array, weight: Array | None = None
) -> float:
    """Concordance of a prediction [n] with the times at which a cause came first (Wolbers 2014).

    :param times: by cause, as `first_causes` returns them.
    :raises NoPairs: if no two rows can be compared.
    """
    own, others = times[cause], [other for name, other in times.items() if name != cause]
    never = np.stack([other.is_exact.numpy() for other in others]).any(0)
    time = np.where(never, np.inf, own.lower.numpy())
    return harrell_concordance(time, own.is_exact.numpy(), risk, weight)
