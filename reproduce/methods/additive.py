"""Rivals that add up columns: a linear model, and pyGAM's splines with constraints."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

#: Columns with more values than these have a smooth term.
SMOOTH = 10


class OfColumns(NamedTuple):
    """A function of [x, r]."""

    function: Callable[[Any], Any]

    def predict(self, x: Tensor, r: Tensor) -> Any:
        """Its values, [B]."""
        return self.function(torch.cat([x, r], 1).numpy())


def linear(rows: Any, seed: int) -> OfColumns:
    """Logistic regression, or ridge regression of a continuous y, of standardised columns."""
    binary, z = rows.response == "binary", torch.cat([rows.x, rows.r], 1).numpy()
    last: Any = LogisticRegression(max_iter=1000) if binary else Ridge()
    model = make_pipeline(StandardScaler(), last).fit(z, rows.y.numpy())
    if binary:
        return OfColumns(lambda z: model.predict_proba(z)[:, 1])
    return OfColumns(model.predict)


def additive(rows: Any, seed: int) -> OfColumns:
    """Penalised splines, increasing ones of revenues, and lines of columns with few values."""
    gam, z = import_module("pygam"), torch.cat([rows.x, rows.r], 1).numpy()
    terms = gam.terms.TermList()
    for at, column in enumerate(z.T):
        rises = at >= rows.x.shape[1]
        smooth = rises or len(set(column)) > SMOOTH
        constraints = "monotonic_inc" if rises else None
        terms += gam.s(at, constraints=constraints) if smooth else gam.l(at)
    model = (gam.LogisticGAM if rows.response == "binary" else gam.LinearGAM)(terms)
    model.fit(z, rows.y.numpy())
    return OfColumns(model.predict_proba if rows.response == "binary" else model.predict)
