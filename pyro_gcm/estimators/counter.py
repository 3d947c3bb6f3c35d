"""`GCMCounter`: counts of events over an exposure, with a rate that is strictly monotone."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from pyro_gcm._utils.names import known_name
from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.validation import ArrayLike, share
from pyro_gcm.data.tables import Table, read_table
from pyro_gcm.estimators.estimator import in_numpy
from pyro_gcm.estimators.reasons import Reasons
from pyro_gcm.estimators.targets import Array, refuse_exposures, row_weights, target_numbers
from pyro_gcm.estimators.training import Trained, TrainingRows

if TYPE_CHECKING:
    from typing_extensions import Self


@register("estimators.GCMCounter")
@dataclass(kw_only=True, repr=False, eq=False)
class GCMCounter(RegressorMixin, Reasons):
    """A regressor of counts over exposures, whose rate rises, or falls, in constrained columns.

    The model is a `pyro_gcm.GCM` with response "count": a count is negative binomial given z, with
    a mean of exposure times rate. The whole distribution moves with the rate: means, quantiles and
    intervals are monotone in the constrained columns, and rise with the exposure.

    Columns of X, missing values and names are read as in `GCMRegressor`.

    :param exposure: name of the column of X that has the exposures, above 0, or its index where
        columns have no names: the years of a policy, the hours of a machine. It is no feature. None
        for one unit of it in all rows.
    :param monotonic_cst: +1 for a column in which the rate is to rise, -1 in which it is to fall,
        and 0 for the others: a mapping from names, or an array with an entry a column, of those
        without the exposure.
    :param categorical_features: "from_dtype" makes text and categorical columns of a DataFrame
        categories; a mask, indices or names say which columns are; None for none.
    :param prior: "members", in which z is one of several networks, or a prior of `pyro_gcm.GCM`:
        "conditional" is the paper's.
    :param members: number of members.
    :param hidden: width of the hidden layers.
    :param alternatives, costs: numbers of latent costs, see `pyro_gcm.GCM`.
    :param dropout: share of hidden units that are left out in a step, for members.
    :param epochs: passes over the rows, at most, if training stops early.
    :param batch_size: rows of a step.
    :param learning_rate: of the optimiser. What is None so far follows from the size of the table.
    :param early_stopping: as in `GCMRegressor`.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param verbose: whether training shows its progress.

    After `fit`: `model_`, a `GCM` whose x and r are those of `encoding_`, and whose y is a count
    and an exposure; `mean_exposure_`; `n_iter_`; `rows_behind_`; `n_features_in_` and
    `feature_names_in_`, without the exposure. `required`, `response_curve`, `reasons` and
    `predict_bands` speak of the rate; `explain(X, above=k)` explains that more than k events come
    in one unit of exposure.

    >>> import pandas as pd
    >>> from pyro_gcm.estimators import GCMCounter
    >>> X = pd.DataFrame({"speed": range(60), "years": [0.5, 2.0] * 30})
    >>> model = GCMCounter(exposure="years", monotonic_cst={"speed": 1}, epochs=2)
    >>> model = model.fit(X, [0, 1, 3] * 20)
    >>> bool((model.predict(X) == model.predict_rate(X) * X["years"]).all())
    True
    """

    exposure: str | int | None = None

    response = "count"
    mean_exposure_ = 1.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to a table X of n rows and counts y.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: numbers of events, whole and at least 0, [n].
        :param sample_weight: weights of the rows, [n], at least 0, of which only ratios matter;
            equal ones by default. Rows of weight 0 are left out. An exposure is no weight.
        :param groups: a label for each row, [n], such as a customer of which there are several:
            rows with the same one are held out together. By default copies of a row are.
        :raises TypeError: for columns that are neither numbers, text nor categories.
        :raises ValueError: for wrong shapes, values or options.
        """
        table, found = self._parted(X)
        exposure, counts = self._checked(found), target_numbers("y", y)
        check_consistent_length(exposure, counts)
        columns = torch.from_numpy(np.stack([counts, exposure], 1))
        self._learn(self._given(table, columns, sample_weight, groups), self.response)
        return self

    def exposure_of(self, X: Any) -> Array:
        """The exposures of n rows, [n].

        :raises ValueError: for a table without them, and exposures that are not above 0.
        """
        return self._checked(self._parted(X, getattr(self, "n_features_in_", None))[1])

    def _checked(self, exposure: Array | None) -> Array:
        if exposure is None:
            raise ValueError(
                f"X must have exposures, numbers in column {self.exposure!r}: predict_rate is "
                "without them"
            )
        refuse_exposures("exposure", exposure)
        return exposure

    def _parted(self, X: Any, features: int | None = None) -> tuple[Table, Array | None]:
        """The columns without the exposure, and the exposures, None where they are not there.

        :param features: the number of columns of a table without names that lacks the exposure.
        """
        table = read_table(X, self)
        if self.exposure is None:
            return table, np.ones(len(table[0].is_missing))
        places: Any = range(len(table) if len(table) != features else 0)
        at: Any = self.exposure
        if table.names is not None:
            places = [str(name) for name in table.names]
            at = known_name(str(at), places)
        if at not in places:
            return table, None
        at = places.index(at)
        if len(table) == 1:
            raise ValueError(f"X must have columns beside that of exposures, {self.exposure!r}")
        kept, names = [column for i, column in enumerate(table) if i != at], table.names
        rest = Table(kept, names and [name for i, name in enumerate(names) if i != at])
        return rest, table[at].numbers

    def _read(self, X: Any) -> Table:
        """The columns without the exposure; as they are where `fit` has parted them."""
        return X if isinstance(X, Table) else self._parted(X, self.n_features_in_)[0]

    def _over(self, X: Any) -> Any:
        """The distributions of the counts of n rows over their exposures."""
        rows = self._rows(X)  # first, for it says where nothing was fitted
        return self.model_.predictive(*rows, exposure=self.exposure_of(X))

    def predict(self, X: Any) -> Array:
        """The mean number of events over the exposure of each row, [n]."""
        return self._predict(X) * self.exposure_of(X)

    def predict_rate(self, X: Any) -> Array:
        """The mean number of events in a unit of exposure, [n]; X may lack the exposures."""
        return self._predict(X)

    def predict_quantiles(self, X: Any, levels: Any = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Array:
        """Quantiles of the count of each row over its exposure, [n, L].

        :param X: a table of n rows.
        :param levels: strictly between 0 and 1, [L].
        """
        return in_numpy(self._over(X).quantile(levels))

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """A central interval of the count itself, [n, 2]; compare `predict_bands`.

        :param level: of the outcomes inside, at least, if the predictive distribution is right.
        """
        return in_numpy(self._over(X).interval(level))

    def pmf(self, X: Any, counts: ArrayLike) -> Array:
        """The probabilities of counts [K] over the exposure of each row, [n, K]."""
        return in_numpy(self._over(X).pmf(counts))

    def predict_rate_given(self, X: Any, y: Any) -> Array:
        """The mean of the rate of each row given what it had, its credibility estimate, [n].

        :param X: a table of n rows; `y`: their numbers of events, [n], over their exposures.
        """
        return in_numpy(self._over(X).rate(target_numbers("y", y)))

    def log_prob(self, X: Any, y: Any) -> Array:
        """log Pr(N = y) of each row in nats, [n].

        :param X: a table of n rows; `y`: their numbers of events, [n].
        """
        return in_numpy(self._over(X).log_prob(target_numbers("y", y)))

    def crps(self, X: Any, y: Any) -> Array:
        """The continuous ranked probability score of each row, [n], in events; 0 is best.

        :param X: a table of n rows; `y`: their numbers of events, [n].
        """
        return in_numpy(self._over(X).crps(target_numbers("y", y)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the Poisson deviance that is explained, with y and weights as in `fit`.

        That is D², 0 for one rate for all rows and 1 for means that are the counts.
        """
        counts, exposure = target_numbers("y", y), self.exposure_of(X)
        check_consistent_length(exposure, counts)
        weight = row_weights(sample_weight, counts)
        weight = np.ones(len(counts)) if weight is None else weight
        null = exposure * (weight @ counts) / (weight @ exposure)
        own, one = (weight @ poisson_deviance(counts, m) for m in (self.predict(X), null))
        return float(1.0 - own / one) if one else 0.0

    # Bands of the rate

    def _residual(self, model: Any, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
        return y[:, 0] - y[:, 1] * model.predict(x, r).double().cpu()

    def _look_back(self, fitted: Trained, rows: TrainingRows) -> None:
        self.mean_exposure_ = float(rows.y[:, 1].mean())
        super()._look_back(fitted, rows)

    def _variance(self, mean: Array, x: Tensor) -> Array:
        """Of the rate that is seen over the mean exposure."""
        response: Any = self.model_.response
        return mean / self.mean_exposure_ + response.constant_dispersion.item() * mean**2

    def _ends(self, mean: Array, x: Tensor, level: float) -> tuple[Array, Array]:
        """The rates whose standard errors reach the prediction, as those of Wilson's interval."""
        square = NormalDist().inv_cdf(0.5 + 0.5 * share("level", level)) ** 2 / self._behind()
        response: Any = self.model_.response
        curved = 1.0 - square * response.constant_dispersion.item()
        middle = mean + 0.5 * square / self.mean_exposure_
        root = np.sqrt(np.maximum(0.0, middle**2 - curved * mean**2))
        upper = (middle + root) / curved if curved > 0.0 else np.full(len(mean), np.inf)
        return mean**2 / (middle + root), upper


def poisson_deviance(counts: Array, means: Array) -> Array:
    """Twice the log-likelihood that a mean lacks to that of the count itself, [n]."""
    from scipy.special import kl_div

    found: Array = 2.0 * kl_div(counts, means)
    return found
