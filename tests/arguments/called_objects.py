"""Data, and objects that were made of them, whose methods are called with wrong arguments."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import pyro_gcm
from pyro_gcm import GCM, IGCM, baselines, data, encoders, estimators

ROWS = 24


class Toys:
    """Data, and objects that `train` trains: none of them while tests are collected."""

    def __init__(self) -> None:
        g = torch.Generator().manual_seed(0)
        self.x, self.r = torch.randn(ROWS, 3, generator=g), torch.randn(ROWS, 2, generator=g)
        self.y = (self.r.sum(1) + torch.randn(ROWS, generator=g) > 0).float()
        self.t = self.r.sum(1) + self.x[:, 0]
        self.levels = (self.t > -1.0).int().numpy() + (self.t > 1.0).int().numpy()
        self.rows = {"x": self.x, "r": self.r, "y": self.y}
        self.X = pd.DataFrame(torch.cat([self.x, self.r], 1).numpy(), columns=list("abcde"))
        self.folder = Path(tempfile.mkdtemp())
        self._untrained: list[Callable[[], object]] = []

    def train(self) -> None:
        """Train what was made so far, in place."""
        while self._untrained:
            self._untrained.pop()()

    @functools.cached_property
    def model(self) -> GCM:
        """Of binary y."""
        return self._trained(GCM(3, 2, hidden=4, num_samples=8, seed=0), self.y)

    @functools.cached_property
    def members(self) -> GCM:
        """Of members."""
        return self._trained(GCM(3, 2, prior="members", members=2, hidden=4, seed=0), self.y)

    @functools.cached_property
    def continuous(self) -> GCM:
        """Of continuous y."""
        model = GCM(3, 2, response="continuous", hidden=4, num_samples=8, seed=0)
        return self._trained(model, self.t)

    @functools.cached_property
    def joint(self) -> GCM:
        """Of the whole program."""
        model = GCM(3, 2, prior="standard", hidden=4, num_samples=8, seed=0)
        return self._trained(model, self.y, objective="joint")

    @functools.cached_property
    def implicit(self) -> IGCM:
        """An IGCM."""
        return self._trained(IGCM(3, 2, hidden=4, num_samples=8, seed=0), self.y)

    def _trained(self, model: Any, y: torch.Tensor, **options: Any) -> Any:
        quick: dict[str, Any] = {"epochs": 1, "num_particles": 2, "progress": False, **options}
        self._untrained.append(lambda: pyro_gcm.fit(model, self.x, self.r, y, **quick))
        return model

    @functools.cached_property
    def network(self) -> baselines.SMM:
        """A baseline."""
        return baselines.SMM(3, 2)

    @functools.cached_property
    def boosting(self) -> baselines.MonotoneBoosting:
        """Fitted."""
        return baselines.MonotoneBoosting(max_iter=2).fit(self.x, self.r, self.y)

    @functools.cached_property
    def classifier(self) -> estimators.GCMClassifier:
        """Fitted."""
        made = estimators.GCMClassifier(monotonic_cst={"d": 1, "e": 1}, epochs=1, random_state=0)
        self._untrained.append(lambda: made.fit(self.X, self.y.numpy()))
        return made

    @functools.cached_property
    def regressor(self) -> estimators.GCMRegressor:
        """Fitted."""
        made = estimators.GCMRegressor(monotonic_cst={"d": 1, "e": 1}, epochs=1, random_state=0)
        self._untrained.append(lambda: made.fit(self.X, self.t.numpy()))
        return made

    @functools.cached_property
    def ordinal(self) -> estimators.GCMOrdinal:
        """Fitted."""
        made = estimators.GCMOrdinal(monotonic_cst={"d": 1, "e": 1}, epochs=1, random_state=0)
        self._untrained.append(lambda: made.fit(self.X, self.levels))
        return made

    @functools.cached_property
    def survival(self) -> estimators.GCMSurvival:
        """Fitted."""
        made = estimators.GCMSurvival(monotonic_cst={"d": 1, "e": 1}, epochs=1, random_state=0)
        self._untrained.append(lambda: made.fit(self.X, self.times))
        return made

    @functools.cached_property
    def times(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether events came, and when."""
        return self.y.numpy() == 1.0, self.t.exp().numpy()

    @functools.cached_property
    def survival_times(self) -> data.SurvivalTimes:
        """The same."""
        return data.SurvivalTimes.right_censored(*self.times[::-1])

    @functools.cached_property
    def audit(self) -> pyro_gcm.MonotonicityAudit:
        """Of a predictor that falls."""
        return pyro_gcm.audit_monotonicity(
            # Of arrays: a gradient would start torch's engine while tests are collected.
            lambda x, r: -np.asarray(r)[:, 0],
            self.x,
            self.r,
            pairs=50,
            progress=False,
        )

    @functools.cached_property
    def boosted(self) -> encoders.Boosted:
        """A model with the score of boosters."""
        score = encoders.BoostedScore("revenue", "sklearn", folds=2, max_iter=2)
        columns = score.columns(self.x, self.r, score.fit(self.x, self.r, self.y))
        model = GCM(3, 3, hidden=4, num_samples=8)
        self._untrained.append(
            lambda: pyro_gcm.fit(model, *columns, self.y, epochs=1, progress=False)
        )
        return encoders.Boosted(model, score)
