"""Kinds of models: which an estimator is, what it predicts, outcomes of rows, and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyro_gcm._utils.validation import InvalidValue
from pyro_gcm.estimators.after_training import warn_of_loss
from pyro_gcm.estimators.event_times import NoPairs, event_times, first_causes
from pyro_gcm.estimators.targets import Array, Values, places_of, target_column, target_numbers

if TYPE_CHECKING:
    import pandas as pd

#: Rows that are predicted at once; the predictions are the same for any number.
BLOCK = 8192

Columns = dict[str, Values]


#: All kinds, and the estimator that the command line fits for each.
KINDS = {
    "classifier": "GCMClassifier",
    "regressor": "GCMRegressor",
    "distribution": "GCMRegressor",
    "ordinal": "GCMOrdinal",
    "count": "GCMCounter",
    "survival": "GCMSurvival",
    "competing": "GCMCompetingRisks",
}


def kind_of(response: str) -> str:
    """The kind of an estimator by its `response`: see `KINDS`."""
    if response == "binary":
        return "classifier"
    return response if response in KINDS else "regressor"  # whose response rows may settle


def monotone_prediction(estimator: Any, X: Any) -> Array:
    """The one monotone prediction of each row: a probability, mean, rate, mean place or risk, [n].

    :param estimator: fitted.
    :param X: a table of n rows.
    """
    kind = kind_of(estimator.response)
    if kind == "classifier":
        return estimator.predict_proba(X)[:, estimator.event_column_]
    if kind == "count":
        return estimator.predict_rate(X)
    return estimator.predict_mean(X) if kind == "ordinal" else estimator.predict(X)


def outcomes_of(estimator: Any, y: Any, name: str = "y") -> Any:
    """The outcomes of rows, as an estimator reads them.

    :param estimator: fitted.
    :param y: in any form that `fit` takes, [n].
    :param name: how messages call y.
    :returns: those of `classes_`, or numbers, [n]; or `SurvivalTimes`, by cause of competing risks.
    :raises TypeError: as `fit` does.
    :raises ValueError: as `fit` does, and for labels that are none of `classes_`.
    """
    kind = kind_of(estimator.response)
    if kind == "survival":
        return event_times(y)
    if kind == "competing":
        return first_causes(y, estimator.causes_)
    if kind in ("classifier", "ordinal"):
        labels = target_column(name, y)
        return estimator.classes_[places_of(labels, estimator.classes_, name, "those of fit")]
    return target_numbers(name, y)


def has_quantiles(estimator: Any) -> bool:
    """Whether the estimator predicts quantiles, of y or of the time of the event."""
    return hasattr(estimator, "predict_quantiles") or hasattr(estimator, "predict_quantile")


def predictions(
    estimator: Any,
    X: Any,
    quantiles: Sequence[float] = (),
    level: float | None = None,
    times: Sequence[float] = (),
) -> Columns:
    """Return the columns of predictions, by name, for a table X of n rows.

    - Of a classifier: `probability` (of the event) and `class`, and of three or more classes
      `probability_` and each class.
    - Of a regressor: `mean`, and `q0.1` and so on for the quantiles.
    - Of counts: their `mean` over the exposure, their `rate`, and quantiles of them.
    - Of survival: `risk` (of an event by the horizon), the `median` time, and quantiles of it.
    - Of competing risks: `incidence` of the cause of predictions by the horizon,
      and `ever_` and each cause, the probability that it comes first in the end.
    - Of an ordinal estimator: `probability_` and each level, the most probable `level`, the
      `median` level, and `mean_place`.

    Of times there are, in order, `survival_` and each, the probability that nothing has come by
    then, and of competing risks `incidence_`, each cause and each time. With a level `lower` and
    `upper` follow, the ends of `predict_bands`.
    """
    kind, one = kind_of(estimator.response), monotone_prediction(estimator, X)
    found: Columns
    if kind == "classifier":
        column, found = estimator.event_column_, {"probability": one}
        if len(estimator.classes_) > 2:
            shares = estimator.predict_proba(X)
            names = [f"probability_{name}" for name in estimator.classes_]
            found |= dict(zip(names, shares.T, strict=True))
            found["class"] = estimator.classes_[shares.argmax(1)]
        else:
            found["class"] = estimator.classes_[np.where(one > 0.5, column, 1 - column)]
    elif kind == "ordinal":
        names = [f"probability_{name}" for name in estimator.classes_]
        found = dict(zip(names, estimator.predict_proba(X).T, strict=True))
        found |= {"level": estimator.predict(X), "median": estimator.predict_median(X)}
        found["mean_place"] = one
    elif kind == "count":
        found = {"mean": estimator.predict(X), "rate": one}
    elif kind == "survival":
        found = {"risk": one, "median": estimator.predict_median(X)}
    elif kind == "competing":
        ever = zip(estimator.causes_, estimator.predict_causes(X).T, strict=True)
        found = {"incidence": one} | {f"ever_{cause}": share for cause, share in ever}
    else:
        found = {"mean": one}
    if quantiles:
        ask = getattr(estimator, "predict_quantiles", None) or estimator.predict_quantile
        names = [f"q{float(q)!r}" for q in quantiles]
        found.update(zip(names, ask(X, quantiles).T, strict=True))
    if times:
        at = np.sort(np.asarray(times, dtype=np.float64))
        names = [f"survival_{t:g}" for t in at]
        none = estimator.predict_survival_function(X, True, times=at)
        found |= dict(zip(names, none.T, strict=True))
        if kind == "competing":
            shares = estimator.predict_cumulative_incidence(X, at)
            for k, cause in enumerate(estimator.causes_):
                found |= {f"incidence_{cause}_{t:g}": shares[:, j, k] for j, t in enumerate(at)}
    if level is not None:
        bands = estimator.predict_bands(X, level)
        found |= {"lower": bands.lower, "upper": bands.upper}
    return found


def in_blocks(of_rows: Callable[[slice], Columns], rows: int, *, progress: bool = False) -> Columns:
    """Columns of predictions, from those of blocks of rows; errors name rows among all of them.

    :param of_rows: columns of predictions of some rows.
    :param progress: whether a bar is shown if it takes longer than two seconds.
    """
    from tqdm.auto import tqdm

    parts = []
    with tqdm(total=rows, disable=not progress, delay=2, desc="predict", unit="row") as bar:
        for start in range(0, rows, BLOCK):
            try:
                parts.append(of_rows(slice(start, start + BLOCK)))
            except InvalidValue as error:
                error.row += start
                raise
            bar.update(min(BLOCK, rows - start))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def scores(estimator: Any, X: pd.DataFrame, y: Any) -> dict[str, float]:
    """The scores of a kind of model, by name.

    AUC (of the event), log score (the mean log-probability of the outcome, in nats,
    higher is better) and accuracy of a classifier; accuracy and log score of an ordinal model; D2
    (the share of the Poisson deviance that is explained), log score and CRPS of counts; R2,
    RMSE and, where the model has densities, log score of a regressor; Harrell's concordance of a
    survival model, and of the cause that predictions are about. What these rows do not have is left
    out: AUC with one class, R2 of a single row, concordance where no two rows can be compared. A
    warning tells where rows lose far more than those did that members left out in `fit`.
    """
    kind, y = kind_of(estimator.response), outcomes_of(estimator, y)
    if kind in ("survival", "competing"):
        try:
            return {"concordance": float(estimator.score(X, y))}
        except NoPairs:
            return {}
    if kind in ("classifier", "ordinal"):
        shares = estimator.predict_proba(X)
        of_rows = shares[np.arange(len(y)), places_of(y, estimator.classes_)]
        log_p = np.log(np.maximum(of_rows, np.finfo(np.float64).tiny))
        warn_of_loss(estimator, log_p)
        found = {
            "log_score": float(log_p.mean()),
            "accuracy": float((estimator.predict(X) == y).mean()),
        }
        if kind == "ordinal":
            return found
        column = estimator.event_column_
        happened = y == estimator.classes_[column]
        if happened.all() or not happened.any():
            return found
        from sklearn.metrics import roc_auc_score

        return {"auc": float(roc_auc_score(happened, shares[:, column])), **found}
    if kind == "count":
        log_p = estimator.log_prob(X, y)
        warn_of_loss(estimator, log_p)
        found = {"d2": float(estimator.score(X, y)), "log_score": float(log_p.mean())}
        return found | {"crps": float(estimator.crps(X, y).mean())}
    errors = y - estimator.predict(X)
    found = {"rmse": float(np.sqrt((errors**2).mean()))}
    if len(y) > 1:
        found = {"r2": float(estimator.score(X, y)), **found}
    if hasattr(estimator, "log_prob"):
        log_p = estimator.log_prob(X, y)
        warn_of_loss(estimator, log_p)
        found["log_score"] = float(log_p.mean())
    return found
