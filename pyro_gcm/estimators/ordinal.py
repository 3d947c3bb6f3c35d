"""`GCMOrdinal`: ordered levels, each of whose cumulative probabilities is strictly monotone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length

from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.validation import shown
from pyro_gcm.estimators.gcm import GCMOptions
from pyro_gcm.estimators.levels import levels_in_order, places_of
from pyro_gcm.estimators.targets import check_labels, row_weights, target_column
from pyro_gcm.estimators.thresholds import OfRows
from pyro_gcm.responses import Ordinal

if TYPE_CHECKING:
    from typing_extensions import Self

Array = npt.NDArray[np.float64]


@register("estimators.GCMOrdinal")
class GCMOrdinal(ClassifierMixin, GCMOptions):
    """A classifier of ordered levels, which move up, or down, in every constrained column.

    The model is a `pyro_gcm.GCM` with response "ordinal": every Pr(y >= level) is the same order
    event at a threshold of its own (paper, Lemma 1). Each of them is strictly monotone in the
    constrained columns, and they cannot cross.

    The levels are those of an ordered categorical type of y in its order (pandas, polars `Enum`),
    those of `levels`, or else the labels of y in sorted order, of which a warning tells for text.

    `predict` returns the most probable level, which may step back where a constrained column rises
    although every cumulative probability moves on: between two tails the middle may lose more than
    it gains. `predict_median`, `predict_mean` and `predict_cumulative` cannot.

    Columns of X, missing values and names are read as in `GCMClassifier`.

    :param monotonic_cst: +1 for a column with which the levels are to rise, -1 with which they are
        to fall, and 0 for the others: an array with an entry a column, or a mapping from names.
        Booleans and ordered categories may be constrained too.
    :param levels: all levels in their order, those included that no training row has.
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
    :param early_stopping: whether trainings on 85 % of the rows say how many epochs are best for
        one on all rows, by the score of the averaged prediction; "auto" does so for members with
        20 to 20,000 rows, if `epochs` is None.
    :param bootstrap: models that are fitted on bootstrap samples, for bands.
    :param warm_start: whether `fit` trains on from the last one, whose columns it keeps.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param threads: of torch in the training, see `pyro_gcm.fit`; all else runs on one.
    :param verbose: whether training shows its progress.

    After `fit`: `classes_`, the levels in their order; `model_`, a `GCM` whose x and r are those of
    `encoding_` and whose y is the place of a level, from 0; `bootstrap_models_`; `n_iter_`;
    `n_features_in_`, and `feature_names_in_` for names that are text. Where `required`,
    `response_curve` and `predict_bands` speak of the prediction, it is the mean place of
    `predict_mean`; `explain(X, above=level)` explains that y is above a level.

    >>> import pandas as pd
    >>> from pyro_gcm.estimators import GCMOrdinal
    >>> X = pd.DataFrame({"income": range(60), "job": ["a", "b"] * 30})
    >>> y = pd.cut(X["income"], [-1, 19, 39, 59], labels=["low", "medium", "high"])
    >>> model = GCMOrdinal(monotonic_cst={"income": 1}, epochs=2).fit(X, y)
    >>> model.classes_.tolist(), model.predict_proba(X).shape
    (['low', 'medium', 'high'], (60, 3))
    """

    response = "ordinal"
    classes_: npt.NDArray[Any]

    def __init__(
        self,
        *,
        monotonic_cst: Any = None,
        levels: Any = None,
        categorical_features: Any = "from_dtype",
        prior: str = "members",
        members: int = 8,
        hidden: int | None = None,
        alternatives: int | None = None,
        costs: int | None = None,
        dropout: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        early_stopping: bool | str = "auto",
        bootstrap: int = 0,
        warm_start: bool = False,
        random_state: Any = 0,
        device: str = "auto",
        threads: int = 1,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            monotonic_cst=monotonic_cst,
            categorical_features=categorical_features,
            prior=prior,
            members=members,
            hidden=hidden,
            alternatives=alternatives,
            costs=costs,
            dropout=dropout,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            early_stopping=early_stopping,
            bootstrap=bootstrap,
            warm_start=warm_start,
            random_state=random_state,
            device=device,
            threads=threads,
            verbose=verbose,
        )
        self.levels = levels

    def new_response(self) -> Ordinal:
        """The response of a new model, with the levels of the labels that are being fitted."""
        return Ordinal(levels=self._number)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table X of n rows and ordered labels y.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: the labels, [n]; see the class for their order.
        :param sample_weight: weights of the rows, [n], at least 0; equal ones by default.
        :raises TypeError: for columns that are neither numbers, text nor categories.
        :raises ValueError: for wrong shapes, values or options, labels that are not among
            `levels`, and fewer than two different labels.
        """
        columns = self._columns_to_fit(X)
        classes = levels_in_order(y, self.levels)
        labels = target_column("y", y)
        check_consistent_length(columns[0].is_missing, labels)
        if classes is None:
            check_labels("y", labels)
            classes = np.unique(labels)
        at = places_of(labels, classes)
        weight = row_weights(sample_weight, labels)
        there = np.unique(at if weight is None else at[weight > 0])
        if len(there) < 2:
            raise ValueError(
                "y must have two classes or more, got one class, "
                f"{classes.tolist()[there[0]]!r}, in {len(labels)} rows of positive weight"
            )
        if self.warm_start and hasattr(self, "classes_") and list(classes) != list(self.classes_):
            raise ValueError(
                f"y must have the classes of the first fit, {self.classes_.tolist()}, in a warm "
                f"start, got {classes.tolist()}"
            )
        self._number = len(classes)
        try:
            self._learn(columns, torch.from_numpy(at.astype(np.float32)), weight)
        finally:
            del self._number
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the levels, [n, L], in the order of `classes_`."""
        rows = self._rows(X)
        found = self.model_.predictive(*rows).probabilities().double().cpu().numpy()
        shares: Array = found / found.sum(1, keepdims=True)
        return shares

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`, [n, L]; -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_cumulative(self, X: Any) -> Array:
        """Pr(y >= level) of every level but the first, [n, L - 1]: monotone, and never crossing."""
        x, r = self._rows(X)
        return np.stack([self._above(x, r, at) for at in range(len(self.classes_) - 1)], 1)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable level of each row, [n]: the lower one of two that are equally so."""
        places = self.predict_proba(X).argmax(1)
        found: npt.NDArray[Any] = self.classes_[places]
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose level was predicted, [n] of y and weights as `fit` takes them."""
        labels = target_column("y", y)
        return float(super().score(X, labels, row_weights(sample_weight, labels)))

    def predict_median(self, X: Any) -> npt.NDArray[Any]:
        """The lowest level at or below which y lies with probability 1/2, [n]; it is monotone."""
        rows = self._rows(X)
        places = self.model_.predictive(*rows).median().long().cpu().numpy()
        found: npt.NDArray[Any] = self.classes_[places]
        return found

    def predict_mean(self, X: Any) -> Array:
        """The mean place of the level among `classes_`, from 0 to L - 1, [n]; it is monotone."""
        return self._predict(X)

    def _above(self, x: Any, r: Any, place: int) -> Array:
        """Pr(y > the level at a place) of rows of the model, [n]."""
        cdf = self.model_.predictive(x, r).cdf(np.full(len(x), float(place)))
        above: Array = 1.0 - cdf.double().cpu().numpy()
        return above

    def _event_of(self, above: Any) -> OfRows:
        """The probability that y is above a level, as a function of x and r."""
        self._check_fitted()
        lower = self.classes_[:-1].tolist()
        if not isinstance(above, str | float | int | np.generic) or above not in lower:
            raise ValueError(
                f"above must be a level below the highest, one of {lower}, got {shown(above)}"
            )
        place = lower.index(above)
        return lambda x, r: self._above(x, r, place)
