"""Scores of an estimator of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pyro_gcm.estimators.concordance import NoPairs
from pyro_gcm.estimators.kinds import kind_of, outcomes_of

if TYPE_CHECKING:
    import pandas as pd


def scores(estimator: Any, X: pd.DataFrame, y: Any) -> dict[str, float]:
    """The scores of a kind of model, by name.

    AUC, log score (the mean log-probability of what came, in nats,
    higher is better) and accuracy of a classifier; accuracy and log score of an ordinal model; R2,
    RMSE and, where the model has densities, log score of a regressor; Harrell's concordance of a
    survival model. What these rows do not have is left out: AUC with one class, R2 of a single row,
    concordance where no two rows can be compared.
    """
    kind, y = kind_of(estimator), outcomes_of(estimator, y)
    if kind == "survival":
        try:
            return {"concordance": float(estimator.score(X, y))}
        except NoPairs:
            return {}
    if kind in ("classifier", "ordinal"):
        shares = estimator.predict_proba(X)
        place = {label: at for at, label in enumerate(estimator.classes_.tolist())}
        of_rows = shares[np.arange(len(y)), [place[label] for label in y.tolist()]]
        tiny = np.finfo(np.float64).tiny
        found = {
            "log_score": float(np.log(np.maximum(of_rows, tiny)).mean()),
            "accuracy": float((estimator.predict(X) == y).mean()),
        }
        one = y == y[0]
        if kind == "ordinal" or one.all():
            return found
        from sklearn.metrics import roc_auc_score

        return {"auc": float(roc_auc_score(y == estimator.classes_[1], shares[:, 1])), **found}
    errors = y - estimator.predict(X)
    found = {"rmse": float(np.sqrt((errors**2).mean()))}
    if len(y) > 1:
        found = {"r2": float(estimator.score(X, y)), **found}
    if hasattr(estimator, "log_prob"):
        found["log_score"] = float(estimator.log_prob(X, y).mean())
    return found
