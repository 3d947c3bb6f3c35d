"""What a regressor can be asked of the whole distribution of y given a row."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from pyro_gcm._utils.validation import as_tensor, one_of, positive_int, vector
from pyro_gcm.estimators.bands import check_level
from pyro_gcm.estimators.estimator import MonotoneEstimator
from pyro_gcm.estimators.outcomes import RealOutcome
from pyro_gcm.estimators.response_choice import CHOICES, better_response
from pyro_gcm.estimators.targets import target_numbers
from pyro_gcm.estimators.training import Recipe, TrainingRows
from pyro_gcm.responses import RESPONSES

if TYPE_CHECKING:
    from typing_extensions import Self

Array = npt.NDArray[np.float64]


class DistributionOutcome(RealOutcome):
    """A regressor with a distribution of y that is ordered as its mean is."""

    @property
    def response_(self) -> str:
        """The response of the fitted model: the better one where `response` is "auto"."""
        return next(name for name in CHOICES if type(self.model_.response) is RESPONSES[name])

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table X of n rows and numbers y.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: numbers, [n].
        :param sample_weight: weights of the rows, [n], at least 0; equal ones by default.
        :raises TypeError: for columns that are neither numbers, text nor categories.
        :raises ValueError: for wrong shapes, values or options.
        """
        one_of("response", self.response, ("auto", *CHOICES))
        if (
            self.warm_start is True
            and hasattr(self, "model_")
            and self.response not in ("auto", self.response_)
        ):
            raise ValueError(
                f"response must be that of the first fit, {self.response_!r}, in a warm start, got "
                f"{self.response!r}"
            )
        return super().fit(X, y, sample_weight)

    def _settled(
        self, rows: TrainingRows, ordered: Sequence[Sequence[int]], **common: Any
    ) -> MonotoneEstimator:
        if self.response != "auto":
            return self
        each = {name: copy(self) for name in CHOICES}

        def recipe(name: str, count: int) -> Recipe:
            return each[name]._recipe(count, rows.x.shape[1], rows.r.shape[1], ordered)

        for name, one in each.items():
            one.response = name
        return each[better_response(recipe, rows, **common)]

    def predict_quantiles(self, X: Any, levels: Any = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Array:
        """Quantiles of y for each row, [n, L]: monotone as the mean is, and never crossing.

        :param X: a table of n rows.
        :param levels: strictly between 0 and 1, [L].
        """
        levels, rows = vector("levels", levels), self._rows(X)
        return _numbers(self.model_.predictive(*rows).quantile(levels))

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """The central interval of y itself, which holds a share `level` of the outcomes, [n, 2].

        Its ends are quantiles of the predictive distribution, noise of y included; compare
        `predict_bands`.

        :param X: a table of n rows.
        """
        level, rows = check_level("level", level), self._rows(X)
        return _numbers(self.model_.predictive(*rows).interval(level))

    def cdf(self, X: Any, values: Any) -> Array:
        """Pr(y <= value) for each row, [n, T], monotone against the mean.

        :param X: a table of n rows.
        :param values: of y, [T], or [n, T] with its own ones for each row: `y[:, None]` gives the
            probability integral transform of outcomes y.
        """
        x, r = self._rows(X)
        at = as_tensor("values", values)
        if at.dim() < 2:
            at = vector("values", at.reshape(-1)).expand(len(x), -1)
        if at.dim() != 2 or len(at) != len(x):
            raise ValueError(f"values must be [T] or [{len(x)}, T], got shape {tuple(at.shape)}")
        return _numbers(self.model_.predictive(x, r).cdf(at))

    def sample(self, X: Any, count: int = 100, *, random_state: Any = 0) -> Array:
        """Independent draws of y for each row, [count, n].

        :param X: a table of n rows.
        :param random_state: seed, or a `RandomState` of numpy.
        """
        count, rows = positive_int("count", count), self._rows(X)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        return _numbers(self.model_.predictive(*rows).sample(count, seed=seed))

    def crps(self, X: Any, y: Any) -> Array:
        """The continuous ranked probability score of each row, [n], in the units of y; 0 is best.

        :param X: a table of n rows; `y`: its outcomes, [n].
        """
        x, r, at = self._with_outcomes(X, y)
        return _numbers(self.model_.predictive(x, r).crps(at))

    def log_prob(self, X: Any, y: Any) -> Array:
        """log p(y) of each row in nats, a density in the units of y, [n].

        :param X: a table of n rows; `y`: its outcomes, [n].
        """
        rows = self._with_outcomes(X, y)
        return _numbers(self.model_.log_prob(*rows))

    def _with_outcomes(self, X: Any, y: Any) -> tuple[Tensor, Tensor, Array]:
        x, r = self._rows(X)
        y = target_numbers("y", y)
        check_consistent_length(x, y)
        return x, r, y


def _numbers(values: Tensor) -> Array:
    return values.double().cpu().numpy()
