"""`GCMSurvival`: the time of an event, with a risk that is strictly monotone."""

from __future__ import annotations

from typing import Any

from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.validation import one_of, positive
from pyro_gcm.estimators.gcm import GCMOptions
from pyro_gcm.estimators.survival_outcome import TimeOutcome
from pyro_gcm.responses import Survival


@register("estimators.GCMSurvival")
class GCMSurvival(TimeOutcome, GCMOptions):
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
    :param early_stopping: whether trainings on 85 % of the rows say how many epochs are best for
        one on all rows, by the score of the averaged prediction; "auto" does so for members with
        20 to 20,000 rows, if `epochs` is None.
    :param bootstrap: models that are fitted on bootstrap samples, for bands.
    :param warm_start: whether `fit` trains on from the last one, whose columns it keeps.
    :param random_state: seed, or a `RandomState` of numpy.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param threads: of torch in the training, see `pyro_gcm.fit`; all else runs on one.
    :param verbose: whether training shows its progress.

    After `fit`: `model_`, a `GCM` whose x and r are those of `encoding_`; `unique_times_`, the
    times of survival functions by default, at most 256 of those in y; `event_codes_`, (0, 1) or
    (1, 2) where events of y were numbers, as they are read again; `bootstrap_models_`; `n_iter_`,
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

    def __init__(
        self,
        *,
        monotonic_cst: Any = None,
        horizon: float | None = None,
        cured: str | None = None,
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
        self.horizon = horizon
        self.cured = cured

    def new_response(self) -> Survival:
        """The response of a new model, with the options that are about it checked."""
        if self.cured is not None:
            one_of("cured", self.cured, ["constant", "conditional"])
        return Survival(horizon=None if self.horizon is None else positive("horizon", self.horizon))
