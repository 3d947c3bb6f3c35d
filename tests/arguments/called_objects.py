"""Rows, and objects that were made of them, whose methods are called with wrong arguments."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import zoo

import pyro_gcm
from pyro_gcm import baselines, data, estimators

ROWS = 24
X, R, Y = zoo.rows("binary", ROWS).map(torch.Tensor.float)
REAL_Y = zoo.rows("continuous", ROWS).y.float()
LEVELS = zoo.rows("ordinal", ROWS).y.int().numpy()
TABLE = pd.DataFrame(torch.cat([X, R], 1).numpy(), columns=list("abcde"))
TIMES = Y.numpy() == 1.0, REAL_Y.exp().clamp(1.0, 2.0).numpy()  # whether events came, and when
SURVIVAL_TIMES = data.SurvivalTimes.right_censored(*TIMES[::-1])
TARGETS: dict[Any, Any] = {
    estimators.GCMClassifier: Y.numpy(),
    estimators.GCMRegressor: REAL_Y.numpy(),
    estimators.GCMOrdinal: LEVELS,
    estimators.GCMSurvival: TIMES,
}


@functools.cache
def fitted(kind: Any) -> Any:
    """An estimator."""
    made = kind(monotonic_cst={"d": 1, "e": 1}, members=2, hidden=4, epochs=1, random_state=0)
    return made.fit(TABLE, TARGETS[kind])


@functools.cache
def boosting() -> baselines.MonotoneBoosting:
    """Fitted."""
    return baselines.MonotoneBoosting(max_iter=2).fit(X, R, Y)


@functools.cache
def audit() -> pyro_gcm.MonotonicityAudit:
    """Of a predictor that falls."""
    return pyro_gcm.audit_monotonicity(lambda x, r: -r[:, 0], X, R, pairs=50, progress=False)


@functools.cache
def folder() -> Path:
    """With a model in "model"."""
    made = Path(tempfile.mkdtemp())
    pyro_gcm.save(zoo.trained("plain"), made / "model")
    return made
