"""`GCMClassifier` and `GCMRegressor`: strictly monotone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyro_gcm._utils.recipe import register
from pyro_gcm.estimators.answers import Answers
from pyro_gcm.estimators.distributions import DistributionOutcome
from pyro_gcm.estimators.outcomes import BinaryOutcome
from pyro_gcm.estimators.recipes import gcm_recipe
from pyro_gcm.estimators.state import Saved
from pyro_gcm.estimators.training import Recipe


class GCMOptions(Answers, Saved):
    """The options of both."""

    def __init__(
        self,
        *,
        monotonic_cst: Any = None,
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
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.prior = prior
        self.members = members
        self.hidden = hidden
        self.alternatives = alternatives
        self.costs = costs
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.bootstrap = bootstrap
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.threads = threads
        self.verbose = verbose

    def _recipe(
        self, rows: int, x_dim: int, r_dim: int, ordered: Sequence[Sequence[int]]
    ) -> Recipe:
        return gcm_recipe(self, rows, x_dim, r_dim, ordered)


@register("estimators.GCMRegressor")
class GCMRegressor(DistributionOutcome, GCMOptions):
    """A regressor whose mean rises, or falls, in every constrained column.

    The model is a `pyro_gcm.GCM` with response "continuous" or "distribution". Both have a whole
    distribution of y, that rises, or falls, as its mean does: `predict_quantiles`,
    `predict_interval`, `cdf`, `sample`, `crps` and `log_prob`.

    Columns of X may be numbers, booleans, text and categories, with missing values, in a DataFrame
    of pandas, polars or Arrow or in an array. What a model reads of them is learned in `fit` and
    kept in `encoding_`. DataFrames are matched by the names of their columns, in any order. A level
    that was not there in `fit`, or that was rare, has a level of its own with the other rare ones;
    without rare ones it counts as the average row.

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
        both on a part of the rows, and takes the one with the lower CRPS in the others, if there
        are 100 rows or more whose y is skewed or often has the same value; otherwise "continuous".
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
    :param early_stopping: whether trainings on 85 % of the rows say how many epochs are best for
        one on all rows, by the score of the averaged prediction; "auto" does so for members with
        20 to 20,000 rows, if `epochs` is None.
    :param bootstrap: models that are fitted on bootstrap samples, for bands.
    :param warm_start: whether `fit` trains on from the last one, whose columns it keeps.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param threads: of torch in the training, see `pyro_gcm.fit`; all else runs on one.
    :param verbose: whether training shows its progress.

    After `fit`: `model_`, a `GCM` whose x and r are those of `encoding_`; `bootstrap_models_`;
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

    def __init__(
        self,
        *,
        monotonic_cst: Any = None,
        response: str = "auto",
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
        self.response = response


@register("estimators.GCMClassifier")
class GCMClassifier(BinaryOutcome, GCMOptions):
    """A classifier of two classes whose probability rises, or falls, in constrained columns.

    The model is a `pyro_gcm.GCM`; one of the classes is the event, see `positive`.

    Columns of X may be numbers, booleans, text and categories, with missing values, in a DataFrame
    of pandas, polars or Arrow or in an array. What a model reads of them is learned in `fit` and
    kept in `encoding_`. DataFrames are matched by the names of their columns, in any order. A level
    that was not there in `fit`, or that was rare, has a level of its own with the other rare ones;
    without rare ones it counts as the average row.

    A value that is missing has a level of its own in every column where training rows lack one, and
    otherwise counts as the median or the average row. For any fixed set of missing columns the
    prediction is monotone in the others. Nothing is promised between a row with a value and the
    same row without it.

    :param monotonic_cst: +1 for a column in which the prediction is to rise, -1 in which it is to
        fall, and 0 for the others: an array with an entry a column, or a mapping from names.
        Booleans and ordered categories may be constrained too.
    :param positive: the class that is the event, whose probability has the directions; by default
        the second in sorted order. `classes_` and the columns of `predict_proba` stay sorted.
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
    :param early_stopping: whether trainings on 85 % of the rows say how many epochs are best for
        one on all rows, by the score of the averaged prediction; "auto" does so for members with
        20 to 20,000 rows, if `epochs` is None.
    :param class_weight: None, "balanced", or a mapping from classes to weights of their rows.
    :param bootstrap: models that are fitted on bootstrap samples, for bands.
    :param warm_start: whether `fit` trains on from the last one, whose columns it keeps.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param threads: of torch in the training, see `pyro_gcm.fit`; all else runs on one.
    :param verbose: whether training shows its progress.

    After `fit`: `model_`, a `GCM` whose x and r are those of `encoding_`; `bootstrap_models_`;
    `n_iter_`, the epochs of the last training; `n_features_in_`, and `feature_names_in_` for names
    that are text; `classes_`; `event_column_`, the column of `predict_proba` with the event.

    >>> import pandas as pd
    >>> from pyro_gcm.estimators import GCMClassifier
    >>> X = pd.DataFrame({"income": range(40), "job": ["a", "b"] * 20})
    >>> model = GCMClassifier(monotonic_cst={"income": -1}, epochs=2)
    >>> model.fit(X, ["yes"] * 20 + ["no"] * 20).predict_proba(X).shape
    (40, 2)
    """

    def __init__(
        self,
        *,
        monotonic_cst: Any = None,
        positive: Any = None,
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
        class_weight: Any = None,
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
        self.positive = positive
        self.class_weight = class_weight
