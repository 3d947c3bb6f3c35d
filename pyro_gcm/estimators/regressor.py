"""`GCMRegressor` and `IGCMRegressor`, and what regressors of either model do with y."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.validation import as_tensor, one_of, positive_int, share, vector
from pyro_gcm.estimators.after_training import standard_error
from pyro_gcm.estimators.estimator import MonotoneEstimator, in_numpy
from pyro_gcm.estimators.reasons import Reasons
from pyro_gcm.estimators.state import RegressorMixin
from pyro_gcm.estimators.targets import Array, row_weights, target_numbers
from pyro_gcm.estimators.training import Trained, TrainingRows
from pyro_gcm.responses import RESPONSES

if TYPE_CHECKING:
    from typing_extensions import Self

#: Groups of rows by their predicted spread, at most; rows of each, at least; ranks of each that are
#: kept, and how close to 0 and 1 they come.
_GROUPS, _OF_EACH, _LEVELS, _EDGE = 5, 40, 201, 1e-6
#: Share of a normal distribution within one standard deviation.
_ONE_SPREAD = 0.6827
#: Numbers whose squares are finite, with room for a product or two.
_LARGEST = 1e100
#: The responses of a regressor, of which the first is taken where nothing speaks for another.
CHOICES = ("continuous", "distribution")
#: Rows that are looked at: fewer do not tell them apart, and more are not needed.
_FEWEST_ROWS, _MOST_ROWS = 100, 2000
#: Skewness of y, and the share of rows with one value, from which on y is no sum of many effects.
_SKEWED, _REPEATED = 0.75, 0.1


class RealOutcome(RegressorMixin, MonotoneEstimator):
    """A regressor; the mean of y is monotone."""

    response = "continuous"

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to a table X of n rows and numbers y.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: numbers, [n].
        :param sample_weight: weights of the rows, [n], at least 0, of which only ratios matter;
            equal ones by default. Rows of weight 0 are left out.
        :param groups: a label for each row, [n], such as a customer of which there are several:
            rows with the same one are held out together. By default copies of a row are.
        :raises TypeError: for columns that are neither numbers, text nor categories.
        :raises ValueError: for wrong shapes, values or options.
        """
        given = self._given(X, target_numbers("y", y), sample_weight, groups)
        y = given.y
        largest, spread = np.abs(y).max(), float(np.ptp(y / 2.0))
        if largest > _LARGEST or 0.0 < spread < 1.0 / _LARGEST:  # whose squares are no numbers
            raise ValueError(
                f"y must have sizes and differences from {1 / _LARGEST:g} to {_LARGEST:g}: use "
                "another unit"
            )
        if len(y) < 2:
            raise ValueError("n_samples=1: at least 2 rows are needed for the spread of y")
        self._learn(given._replace(y=torch.tensor(y)), self.response)
        return self

    def predict(self, X: Any) -> Array:
        """The mean of y for each row, [n]."""
        return self._predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, with y and weights [n] as `fit` takes them."""
        numbers = target_numbers("y", y)
        return float(super().score(X, numbers, row_weights(sample_weight, numbers)))

    def predict_interval(
        self, X: Any, level: float = 0.9, *, coverage: float | None = None
    ) -> Array:
        """An interval of y itself, [n, 2], whose ends rise, or fall, as the mean does.

        Its ends are quantiles of the predictive distribution, noise of y included; compare
        `predict_bands`. With `level` they are those that hold a share `level` of the outcomes if
        that distribution is right. With `coverage` their levels are those between which the
        outcomes of this share of the training rows lay, in predictions by members that had left
        the rows out (Chernozhukov, Wuethrich and Zhu 2021): a share of new outcomes close to it is
        inside on average over the rows, right or not, where they come from the same population.

        :param X: a table of n rows.
        :param level: of the central interval.
        :param coverage: share of new outcomes inside, in place of `level`.
        :raises ValueError: for coverage without rows that members left out: of an IGCM or another
            prior; and with `epochs`, or more than 20,000 rows, unless `early_stopping` is True.
        """
        level, (x, r) = share("level", level), self._rows(X)
        if coverage is None:
            return in_numpy(self.model_.predictive(x, r).interval(level))
        tail = 0.5 * (1.0 - share("coverage", coverage))
        if self.ranks_ is None:
            raise ValueError(
                "coverage needs predictions of rows that members left out: prior='members' with "
                "early_stopping=True, which is the default up to 20,000 rows where epochs is None"
            )
        levels, ends = np.quantile(self.ranks_, [tail, 1.0 - tail], axis=1), np.empty((len(x), 2))
        group = np.searchsorted(self.spreads_, _spread(self.model_, x), side="right")
        for at in np.unique(group):
            some = self.model_.predictive(x[group == at], r[group == at])
            ends[group == at] = in_numpy(some.quantile(levels[:, at]))
        return ends

    def _variance(self, mean: Array, x: Tensor) -> Array:
        return _spread(self.model_, x) ** 2

    def _ends(self, mean: Array, x: Tensor, level: float) -> tuple[Array, Array]:
        low, high = self._levels(level, 0.0, x)
        return mean + low, mean + high

    def _look_back(self, fitted: Trained, rows: TrainingRows) -> None:
        """And the ranks of the outcomes in what members predict of rows that they left out."""
        super()._look_back(fitted, rows)
        self.ranks_ = None
        if fitted.crossed is None:
            return

        def spread_and_rank(model: Any, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
            rank = model.predictive(x, r).cdf(y[:, None])[:, 0]
            return torch.from_numpy(np.stack([_spread(model, x), in_numpy(rank)], 1))

        spreads, ranks = fitted.out_of_fold(spread_and_rank, *rows[:3]).numpy().T
        groups, weights = min(_GROUPS, max(1, len(ranks) // _OF_EACH)), in_numpy(rows.weights)
        parts = np.array_split(spreads.argsort(), groups)
        self.spreads_ = np.array([spreads[part[0]] for part in parts[1:]])
        self.ranks_ = np.stack([_evenly(ranks[part], weights[part]) for part in parts])


def _spread(model: Any, x: Tensor) -> Array:
    """The spread of y at the centre of the constrained columns, so that ends rise with p, [n]."""
    ends = in_numpy(model.predictive(x, torch.zeros(len(x), model.r_dim)).interval(_ONE_SPREAD))
    return np.asarray(0.5 * (ends[:, 1] - ends[:, 0]))


def _evenly(ranks: Array, weights: Array) -> Array:
    """Quantiles of the rank of one row more, at levels from 0 to 1, [_LEVELS]."""
    order, one = ranks.argsort(), weights.mean()
    below = weights[order].cumsum() / (weights.sum() + one)
    levels = np.linspace(0.0, 1.0, _LEVELS)
    quantiles = np.interp(levels, [0.0, *below, 1.0], [0.0, *ranks[order], 1.0])
    return quantiles.clip(_EDGE, 1.0 - _EDGE)


@register("estimators.GCMRegressor")
@dataclass(kw_only=True, repr=False, eq=False)
class GCMRegressor(RealOutcome, Reasons):
    """A regressor whose mean rises, or falls, in every constrained column.

    The model is a `pyro_gcm.GCM` with response "continuous" or "distribution". Both have a whole
    distribution of y, that rises, or falls, as its mean does: `predict_quantiles`,
    `predict_interval`, `cdf`, `sample`, `crps` and `log_prob`.

    Columns of X may be numbers, booleans, text and categories, with missing values, in a DataFrame
    of pandas, polars or Arrow or in an array. What a model reads of them is learned in `fit` and
    kept in `encoding_`. DataFrames are matched by the names of their columns, in any order. A level
    that was not there in `fit`, or that was rare, has a level of its own with the other rare ones;
    without rare ones it counts as the average row. A category with many levels for its rows is read
    by their mean outcomes (docs/estimators.md).

    A value that is missing has a level of its own in every column where training rows lack one, and
    otherwise counts as the median or the average row. For any fixed set of missing columns the
    prediction is monotone in the others. Nothing is promised between a row with a value and the
    same row without it.

    :param monotonic_cst: +1 for a column in which the prediction is to rise, -1 in which it is to
        fall, and 0 for the others: an array with an entry a column, or a mapping from names.
        Booleans and ordered categories may be constrained too.
    :param response: "continuous", a mixture of normal densities, whose mean is trained as least
        squares do; or "distribution", which assumes nothing of the shape of y and is trained on its
        density (paper, Lemma 1): for skewed y, for bounds and tails, for quantiles. "auto" trains
        both if there are 100 rows or more whose y is skewed or often has the same value, and takes
        "distribution" unless the CRPS of rows that members left out (without such members, of all
        rows) is worse by more than a standard error; otherwise it takes "continuous".
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

    After `fit`: `model_`, a `GCM` whose x and r are those of `encoding_`; `rows_behind_`;
    `response_`, that of the model; `n_iter_`, the epochs of the last training; `n_features_in_`,
    and `feature_names_in_` for names that are text.

    >>> import pandas as pd
    >>> from pyro_gcm.estimators import GCMRegressor
    >>> X = pd.DataFrame({"income": range(40), "job": ["a", "b"] * 20})
    >>> model = GCMRegressor(monotonic_cst={"income": 1}, epochs=2)
    >>> model.fit(X, [0.5 * i for i in range(40)]).predict(X).shape
    (40,)
    >>> model.predict_quantiles(X, [0.1, 0.5, 0.9]).shape
    (40, 3)
    """

    response: str = "auto"

    @property
    def response_(self) -> str:
        """The response of the fitted model: the better one where `response` is "auto"."""
        return next(name for name in CHOICES if type(self.model_.response) is RESPONSES[name])

    def _trained(self, response: Any, rows: TrainingRows, *, seed: int, **common: Any) -> Trained:
        """Of "auto" the model with the lower CRPS in rows that members left out.

        Both are trained only where y is skewed or often has the same value: there "continuous", a
        mixture of few normal densities, promises values of y that never come, so that it has to be
        better by a standard error.
        """
        one_of("response", response, ("auto", *CHOICES))
        train: Any = partial(super()._trained, seed=seed, **common)
        if response != "auto":
            return train(response, rows)
        if (count := len(rows.y)) < _FEWEST_ROWS or not _is_unusual(rows.y):
            return train(CHOICES[0], rows)
        mixed = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
        some = rows if count <= _MOST_ROWS else rows.take(mixed[:_MOST_ROWS])
        fits = [train(name, some) for name in CHOICES]
        first, second = (fitted.out_of_fold(_crps, *some[:3]) for fitted in fits)
        worse = some.weights * (second - first)
        error = standard_error(worse - worse.mean(), some.groups)
        best = int(worse.sum() <= error)
        return fits[best] if some is rows else train(CHOICES[best], rows)

    def predict_quantiles(self, X: Any, levels: Any = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Array:
        """Quantiles of y for each row, [n, L]: monotone as the mean is, and never crossing.

        :param X: a table of n rows.
        :param levels: strictly between 0 and 1, [L].
        """
        return in_numpy(self._predictive(X).quantile(vector("levels", levels)))

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
        return in_numpy(self.model_.predictive(x, r).cdf(at))

    def sample(self, X: Any, count: int = 100, *, random_state: Any = 0) -> Array:
        """Independent draws of y for each row, [count, n].

        :param X: a table of n rows.
        :param random_state: seed, or a `RandomState` of numpy.
        """
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        return in_numpy(self._predictive(X).sample(positive_int("count", count), seed=seed))

    def crps(self, X: Any, y: Any) -> Array:
        """The continuous ranked probability score of each row, [n], in the units of y; 0 is best.

        :param X: a table of n rows; `y`: its outcomes, [n].
        """
        return in_numpy(self._predictive(X).crps(target_numbers("y", y)))

    def log_prob(self, X: Any, y: Any) -> Array:
        """log p(y) of each row in nats, a density in the units of y, [n].

        :param X: a table of n rows; `y`: its outcomes, [n].
        """
        rows = self._rows(X)
        return in_numpy(self.model_.log_prob(*rows, target_numbers("y", y)))


@register("estimators.IGCMRegressor")
class IGCMRegressor(RealOutcome):
    """A regressor in which y and the constrained columns rise with a latent revenue.

    The model is a `pyro_gcm.IGCM`; its predictions may fall in a constrained column.

    Columns of X, missing values and names are read as in `GCMRegressor`.

    :param monotonic_cst, categorical_features: as in `GCMRegressor`.
    :param hidden: width of the hidden layers.
    :param alternatives, costs: numbers of latent costs, see `pyro_gcm.IGCM`.
    :param epochs: passes over the rows, at most, if training stops early.
    :param batch_size: rows of a step; 256 by default.
    :param learning_rate: of the optimiser; 0.01 by default.
    :param early_stopping: whether a first model, of 85 % of the rows, says how many epochs are best
        for another one of all rows; "auto" does so with 20 rows or more, if `epochs` is None.
    :param random_state, device, verbose: as in `GCMRegressor`.

    After `fit`: what `GCMRegressor` has but `response_`, with an `IGCM` as `model_`.

    >>> import pandas as pd
    >>> from pyro_gcm.estimators import IGCMRegressor
    >>> X = pd.DataFrame({"income": range(40), "job": ["a", "b"] * 20})
    >>> model = IGCMRegressor(monotonic_cst={"income": 1}, epochs=2)
    >>> model.fit(X, [0.5 * i for i in range(40)]).predict(X).shape
    (40,)
    """


def _crps(model: Any, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
    found: Tensor = model.predictive(x, r).crps(y)
    return found.cpu().double()


def _is_unusual(y: Tensor) -> bool:
    centred = y - y.mean()
    skewness = centred.pow(3).mean() / centred.square().mean().pow(1.5)
    most = float(y.unique(return_counts=True)[1].max()) / len(y)
    return bool(skewness.abs() > _SKEWED) or _REPEATED < most < 1.0
