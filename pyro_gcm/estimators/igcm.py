"""`IGCMClassifier` and `IGCMRegressor`: monotone in a latent kernel revenue."""

from __future__ import annotations

from pyro_gcm._utils.recipe import register
from pyro_gcm.estimators.classifier import BinaryOutcome
from pyro_gcm.estimators.plans import igcm_plan
from pyro_gcm.estimators.regressor import RealOutcome


@register("estimators.IGCMRegressor")
class IGCMRegressor(RealOutcome):
    """A regressor in which y and the constrained columns rise with a latent revenue.

    The model is a `pyro_gcm.IGCM`; its predictions may fall in a constrained column.

    Columns of X may be numbers, booleans, text and categories, with missing values, in a DataFrame
    of pandas, polars or Arrow or in an array. What a model reads of them is learned in `fit` and
    kept in `encoding_`. DataFrames are matched by the names of their columns, in any order. A level
    that was not there in `fit`, or that was rare, has a level of its own with the other rare ones;
    without rare ones it counts as the average row.

    A value that is missing has a level of its own in every column where training rows lack one, and
    otherwise counts as the median or the average row.

    :param monotonic_cst: +1 for a column in which the prediction is to rise, -1 in which it is to
        fall, and 0 for the others: an array with an entry a column, or a mapping from names.
        Booleans and ordered categories may be constrained too.
    :param categorical_features: "from_dtype" makes text and categorical columns of a DataFrame
        categories; a mask, indices or names say which columns are; None for none.
    :param hidden: width of the hidden layers.
    :param alternatives, costs: numbers of latent costs, see `pyro_gcm.IGCM`.
    :param epochs: passes over the rows, at most, if training stops early.
    :param batch_size: rows of a step; 256 by default.
    :param learning_rate: of the optimiser; 0.01 by default.
    :param early_stopping: whether a first model, of 85 % of the rows, says how many epochs are best
        for another one of all rows; "auto" does so with 20 rows or more, if `epochs` is None.
    :param bootstrap: models that are fitted on bootstrap samples, for bands.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param verbose: whether training shows its progress.

    After `fit`: `model_`, an `IGCM` whose x and r are those of `encoding_`; `bootstrap_models_`;
    `n_iter_`, the epochs of the last training; `n_features_in_`, and `feature_names_in_` for names
    that are text.

    >>> import pandas as pd
    >>> from pyro_gcm.estimators import IGCMRegressor
    >>> X = pd.DataFrame({"income": range(40), "job": ["a", "b"] * 20})
    >>> model = IGCMRegressor(monotonic_cst={"income": 1}, epochs=2)
    >>> model.fit(X, [0.5 * i for i in range(40)]).predict(X).shape
    (40,)
    """

    _plan = igcm_plan


@register("estimators.IGCMClassifier")
class IGCMClassifier(BinaryOutcome):
    """A classifier in which y and the constrained columns rise with a latent revenue.

    The model is a `pyro_gcm.IGCM`; its probabilities may fall in a constrained column.

    Columns of X may be numbers, booleans, text and categories, with missing values, in a DataFrame
    of pandas, polars or Arrow or in an array. What a model reads of them is learned in `fit` and
    kept in `encoding_`. DataFrames are matched by the names of their columns, in any order. A level
    that was not there in `fit`, or that was rare, has a level of its own with the other rare ones;
    without rare ones it counts as the average row.

    A value that is missing has a level of its own in every column where training rows lack one, and
    otherwise counts as the median or the average row.

    :param monotonic_cst: +1 for a column in which the prediction is to rise, -1 in which it is to
        fall, and 0 for the others: an array with an entry a column, or a mapping from names.
        Booleans and ordered categories may be constrained too.
    :param positive: the class that is the event, whose probability has the directions, or "first"
        or "last" in sorted order; by default the last. Tools that code labels anew, as
        `VotingClassifier` does, keep the order alone. `classes_` and the columns of `predict_proba`
        stay sorted.
    :param categorical_features: "from_dtype" makes text and categorical columns of a DataFrame
        categories; a mask, indices or names say which columns are; None for none.
    :param hidden: width of the hidden layers.
    :param alternatives, costs: numbers of latent costs, see `pyro_gcm.IGCM`.
    :param epochs: passes over the rows, at most, if training stops early.
    :param batch_size: rows of a step; 256 by default.
    :param learning_rate: of the optimiser; 0.01 by default.
    :param early_stopping: whether a first model, of 85 % of the rows, says how many epochs are best
        for another one of all rows; "auto" does so with 20 rows or more, if `epochs` is None.
    :param class_weight: None, "balanced", or a mapping from classes to weights of their rows, of
        which only ratios matter.
    :param calibrate: "auto" shifts the costs after the training, so that the mean probability of
        the training rows is their rate of events; False does not.
    :param bootstrap: models that are fitted on bootstrap samples, for bands.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param verbose: whether training shows its progress.

    After `fit`: `model_`, an `IGCM` whose x and r are those of `encoding_`; `bootstrap_models_`;
    `n_iter_`, the epochs of the last training; `n_features_in_`, and `feature_names_in_` for names
    that are text; `classes_`; `event_column_`, the column of `predict_proba` with the event.

    >>> import pandas as pd
    >>> from pyro_gcm.estimators import IGCMClassifier
    >>> X = pd.DataFrame({"income": range(40), "job": ["a", "b"] * 20})
    >>> model = IGCMClassifier(monotonic_cst={"income": -1}, epochs=2)
    >>> model.fit(X, ["yes"] * 20 + ["no"] * 20).predict_proba(X).shape
    (40, 2)
    """

    _plan = igcm_plan
