"""`GCMClassifier` and `IGCMClassifier`, and what classifiers of either model do with y."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.validation import shown
from pyro_gcm.estimators.classes import read_directions, refuse_classes
from pyro_gcm.estimators.directions import Directions
from pyro_gcm.estimators.estimator import MonotoneEstimator, in_numpy
from pyro_gcm.estimators.reasons import Reasons
from pyro_gcm.estimators.state import ClassifierMixin
from pyro_gcm.estimators.targets import Array, Values, check_labels, row_weights, target_column

if TYPE_CHECKING:
    from typing_extensions import Self


class ClassOutcome(ClassifierMixin, MonotoneEstimator):
    """A classifier, of classes with or without an order."""

    def _check_classes(self, classes: Values, at: Values) -> None:
        """Refuse classes of which rows have one, and others than those of the first fit.

        :param at: the place of the class of each row that counts, [n].
        """
        there = np.unique(at)
        if len(there) < 2:
            raise ValueError(
                f"y must have at least two classes, got one class, {classes.tolist()[there[0]]!r}, "
                f"in {len(at)} rows of positive weight"
            )

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, [n, L], in the order of `classes_`."""
        raise NotImplementedError

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`, [n, L]; -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class was predicted, [n] of y and weights as `fit` takes them."""
        labels = target_column("y", y)
        return float(super().score(X, labels, row_weights(sample_weight, labels)))


#: Modules and a function of scikit-learn that code labels as 0, 1, ... before they fit to them.
_CODING = ("sklearn.ensemble.", "sklearn.multiclass"), "_fit_and_predict"


def _are_coded_anew() -> bool:
    """Whether a tool of scikit-learn that codes labels anew has called, in this process."""
    frame: Any = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_CODING[0]) or frame.f_code.co_name == _CODING[1]:
            return True
        frame = frame.f_back
    return False


@dataclass(kw_only=True, repr=False, eq=False)
class BinaryOutcome(ClassOutcome):
    """A classifier of two classes, or more; one is the event, whose probability is monotone."""

    positive: Any = None
    class_weight: Any = None
    calibrate: bool | Literal["auto"] = "auto"

    response = "binary"
    predicts_probability = True
    event_column_ = 1
    #: Whether it is for three or more classes as well.
    takes_many = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.takes_many
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to a table X of n rows and classes y.

        :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns]; see the class.
        :param y: the classes, [n]: text, numbers or booleans.
        :param sample_weight: weights of the rows, [n], at least 0, of which only ratios matter;
            equal ones by default. Rows of weight 0 are left out.
        :param groups: a label for each row, [n], such as a customer of which there are several:
            rows with the same one are held out together. By default copies of a row are.
        :raises TypeError: for columns that are neither numbers, text nor categories.
        :raises ValueError: for wrong shapes, values or options, and a number of classes that the
            estimator is not for.
        """
        given = self._given(X, target_column("y", y), sample_weight, groups)
        y = given.y
        check_labels("y", y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary" and not (self.takes_many and kind == "multiclass"):
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}; "
                "GCMOrdinal is for ordered levels"
            )
        weight = self._weighed(y, given.weight)
        classes, at = np.unique(y, return_inverse=True)
        self._check_classes(classes, at if weight is None else at[weight > 0])
        event = self._event_among(classes.tolist())
        outcome, signs = at == event, None
        response: Any = self.response
        if len(classes) == 2:
            refuse_classes(self.monotonic_cst, classes.tolist(), event)
        else:
            if (concave := getattr(self, "concave", None)) is not None:
                raise ValueError(
                    "concave must be left out with three or more classes, whose probabilities "
                    f"promise no diminishing returns, got {shown(concave)}"
                )
            table: Any = (len(given.columns), given.columns.names)
            response, signs = read_directions(self.monotonic_cst, classes.tolist(), event, *table)
            outcome = at
        y = torch.from_numpy(outcome.astype(np.float32))
        self._learn(given._replace(y=y, weight=weight), response, signs)
        self.classes_, self.event_column_ = classes, event
        return self

    def _event_among(self, classes: list[Any]) -> int:
        """Where the event stands among the classes."""
        event = "last" if self.positive is None else self.positive
        named = isinstance(event, str | Real | np.generic) and event in classes
        places = {"first": 0, "last": len(classes) - 1}
        place = places.get(event) if isinstance(event, str) else None
        if named and place in (None, classes.index(event)):
            if not isinstance(event, str) and classes == [0, 1] and _are_coded_anew():
                raise ValueError(
                    f"positive must be 'first' or 'last' inside a tool that codes labels as 0 and "
                    f"1 before it fits, got {shown(event)}, which may be another class there"
                )
            return classes.index(event)
        if place is None or named:
            raise ValueError(
                f"positive must be one of the classes {classes}, or 'first' or 'last' in their "
                f"order, which a tool that codes labels anew cannot turn round, got {shown(event)}"
            )
        return place

    def _weighed(self, y: Values, weight: Array | None) -> Array | None:
        """Weights of the rows with those of their classes, which are relative, or None."""
        if self.class_weight is None:
            return weight
        of_class: Any = row_weights(compute_sample_weight(self.class_weight, y), y)
        both: Array = of_class if weight is None else weight * of_class
        most = both.max()
        return both / most if most > 0 else both

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, [n, L], in the order of `classes_`."""
        check_is_fitted(self)
        if len(self.classes_) > 2:
            found: Array = in_numpy(self._predictive(X).probabilities())
            return found
        event = self._predict(X)
        both = [1.0 - event, event]
        return np.stack(both if self.event_column_ else both[::-1], 1)

    def predict(self, X: Any) -> Values:
        """The most probable class of each row, [n]."""
        check_is_fitted(self)
        if len(self.classes_) > 2:
            most_probable: Values = self.classes_[self.predict_proba(X).argmax(1)]
            return most_probable
        happens = self._predict(X) > 0.5
        found: Values = self.classes_[(happens == bool(self.event_column_)).astype(int)]
        return found


@register("estimators.GCMClassifier")
@dataclass(kw_only=True, repr=False, eq=False)
class GCMClassifier(BinaryOutcome, Reasons):
    """An ensemble of GCM members for classes, with a monotone probability of the event.

    The probability rises, or falls, in every constrained column. The members are networks, one of
    which the latent variable z of the model picks (`pyro_gcm.MemberGCM`); `prior="conditional"`
    makes the model the GCM of the paper. One of the classes is the event, see `positive`.

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

    Three or more classes have no order (`GCMOrdinal` is for those that do), and each may have
    directions of its own: see `responses.Classes`, whose latent costs are in a race. A column with
    direction + for one class alone raises its probability and lowers every other; one with the same
    direction for several classes orders the probability that one of them comes. `directions_` says
    in which columns the probability of the event is monotone.

    :param monotonic_cst: +1 for a column in which the prediction is to rise, -1 in which it is to
        fall, and 0 for the others: an array with an entry a column, or a mapping from names.
        Booleans and ordered categories may be constrained too. With three or more classes it is a
        mapping from classes to such directions, {"bus": {"fare": -1}}, to which others have none.
    :param positive: the class that is the event, whose probability has the directions, or of three
        or more classes the one that questions such as `required` are about; or "first" or "last" in
        sorted order, by default the last. Tools that code labels anew, as
        `VotingClassifier` does, keep the order alone. `classes_` and the columns of `predict_proba`
        stay sorted.
    :param concave: names or indices of columns with direction +, at least 0, in which the
        probability of the event rises less and less: it is concave in each of them, of two classes.
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
    :param class_weight: None, "balanced", or a mapping from classes to weights of their rows, of
        which only ratios matter.
    :param calibrate: what follows the training: True makes all costs steeper or flatter, by what is
        best on rows that members left out, which takes an early stopping of members; of two classes
        True and "auto" shift the costs so that the mean probability of the training rows is their
        rate of events; False does neither. No order changes.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param verbose: whether training shows its progress.

    After `fit`: `model_`, a `GCM` whose x and r are those of `encoding_`; `rows_behind_`;
    `n_iter_`, the epochs of the last training; `n_features_in_`, and `feature_names_in_` for names
    that are text; `classes_`; `event_column_`, the column of `predict_proba` with the event.

    >>> import pandas as pd
    >>> from pyro_gcm.estimators import GCMClassifier
    >>> X = pd.DataFrame({"income": range(40), "job": ["a", "b"] * 20})
    >>> model = GCMClassifier(monotonic_cst={"income": -1}, epochs=2)
    >>> model.fit(X, ["yes"] * 20 + ["no"] * 20).predict_proba(X).shape
    (40, 2)
    """

    monotonic_cst: Directions | Mapping[Any, Directions] = None  # type: ignore[assignment]
    concave: Any = None

    takes_many = True


@register("estimators.IGCMClassifier")
class IGCMClassifier(BinaryOutcome):
    """A classifier in which y and the constrained columns rise with a latent revenue.

    The model is a `pyro_gcm.IGCM`; its probabilities may fall in a constrained column.

    Columns of X, missing values and names are read as in `GCMClassifier`.

    :param monotonic_cst, positive, categorical_features: as in `GCMClassifier`.
    :param hidden: width of the hidden layers.
    :param alternatives, costs: numbers of latent costs, see `pyro_gcm.IGCM`.
    :param epochs: passes over the rows, at most, if training stops early.
    :param batch_size: rows of a step; 256 by default.
    :param learning_rate: of the optimiser; 0.01 by default.
    :param early_stopping: whether a first model, of 85 % of the rows, says how many epochs are best
        for another one of all rows; "auto" does so with 20 rows or more, if `epochs` is None.
    :param class_weight: as in `GCMClassifier`.
    :param calibrate: "auto" shifts the costs after the training, so that the mean probability of
        the training rows is their rate of events; False does not.
    :param random_state, device, verbose: as in `GCMClassifier`.

    After `fit`: what `GCMClassifier` has, with an `IGCM` as `model_`.

    >>> import pandas as pd
    >>> from pyro_gcm.estimators import IGCMClassifier
    >>> X = pd.DataFrame({"income": range(40), "job": ["a", "b"] * 20})
    >>> model = IGCMClassifier(monotonic_cst={"income": -1}, epochs=2)
    >>> model.fit(X, ["yes"] * 20 + ["no"] * 20).predict_proba(X).shape
    (40, 2)
    """
