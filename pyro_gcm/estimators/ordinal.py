"""`GCMOrdinal`: ordered levels, each of whose cumulative probabilities is strictly monotone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.validation import shown, warn_user
from pyro_gcm.estimators.classifier import ClassOutcome
from pyro_gcm.estimators.directions import OfRows
from pyro_gcm.estimators.estimator import in_numpy
from pyro_gcm.estimators.reasons import Reasons
from pyro_gcm.estimators.targets import (
    Array,
    Values,
    check_labels,
    levels_in_order,
    places_of,
    target_column,
)
from pyro_gcm.responses import Ordinal

if TYPE_CHECKING:
    from typing_extensions import Self


@register("estimators.GCMOrdinal")
@dataclass(kw_only=True, repr=False, eq=False)
class GCMOrdinal(ClassOutcome, Reasons):
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
    :param early_stopping: whether each row is left out by two of the members, whose score on it
        says when to stop (`inference.cross_fit`); of another prior, whether a training on 85 % of
        the rows says how many epochs are best for one on all. "auto" does so with 20 rows
        or more, of members up to 20,000, if `epochs` is None.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param verbose: whether training shows its progress.

    After `fit`: `classes_`, the levels in their order; `model_`, a `GCM` whose x and r are those of
    `encoding_` and whose y is the place of a level, from 0; `rows_behind_`; `n_iter_`;
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

    levels: Any = None

    response = "ordinal"

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to a table X of n rows and ordered labels y.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: the labels, [n]; see the class for their order.
        :param sample_weight: weights of the rows, [n], at least 0, of which only ratios matter;
            equal ones by default. Rows of weight 0 are left out.
        :param groups: a label for each row, [n], such as a customer of which there are several:
            rows with the same one are held out together. By default copies of a row are.
        :raises TypeError: for columns that are neither numbers, text nor categories.
        :raises ValueError: for wrong shapes, values or options, labels that are not among
            `levels`, and fewer than two different labels.
        """
        classes = levels_in_order(y, self.levels)
        given = self._given(X, target_column("y", y), sample_weight, groups)
        if classes is None:
            check_labels("y", given.y)
            classes = np.unique(given.y)
            if classes.dtype.kind == "U" and len(classes) > 2:
                warn_user(
                    "y has text without an order, and its labels are taken in sorted order, "
                    f"{classes[:9].tolist()}: pass levels=, or an ordered categorical type"
                )
        at = places_of(given.y, classes)
        self._check_classes(classes, at)
        outcome = torch.from_numpy(at.astype(np.float32))
        self._learn(given._replace(y=outcome), Ordinal(levels=len(classes)))
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the levels, [n, L], in the order of `classes_`."""
        found = in_numpy(self._predictive(X).probabilities())
        return found / found.sum(1, keepdims=True)

    def predict_cumulative(self, X: Any) -> Array:
        """Pr(y >= level) of every level but the first, [n, L - 1]: monotone, and never crossing."""
        x, r = self._rows(X)
        return np.stack([self._above(at, x, r) for at in range(len(self.classes_) - 1)], 1)

    def predict(self, X: Any) -> Values:
        """The most probable level of each row, [n]: the lower one of two that are equally so."""
        places = self.predict_proba(X).argmax(1)
        return self.classes_[places]

    def predict_median(self, X: Any) -> Values:
        """The lowest level at or below which y lies with probability 1/2, [n]; it is monotone."""
        places = self._predictive(X).median().long().cpu().numpy()
        return self.classes_[places]

    def predict_mean(self, X: Any) -> Array:
        """The mean place of the level among `classes_`, from 0 to L - 1, [n]; it is monotone."""
        return self._predict(X)

    @property
    def _most(self) -> float:
        response: Any = self.model_.response
        return float(response.levels - 1)

    def _event_of(self, above: Any) -> OfRows:
        """The probability that y is above a level, as a function of x and r."""
        check_is_fitted(self)
        lower = self.classes_[:-1].tolist()
        if not isinstance(above, str | float | int | np.generic) or above not in lower:
            raise ValueError(
                f"above must be a level below the highest, one of {lower}, got {shown(above)}"
            )
        return partial(self._above, lower.index(above))
