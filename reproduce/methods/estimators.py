"""Linear models, and members with the defaults of the library, as estimators of the tables."""

from __future__ import annotations

from typing import Any, Literal

import numpy.typing as npt
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from pyro_gcm import GCM, fit_members


class Linear:
    """Logistic regression of a binary y, least squares otherwise, of standardised [x, r]."""

    def __init__(self, *, response: str, seed: int) -> None:
        self.binary = response == "binary"
        linear = LogisticRegression(max_iter=1000) if self.binary else LinearRegression()
        self.pipeline = make_pipeline(StandardScaler(), linear)

    def fit(self, x: Tensor, r: Tensor, y: Tensor) -> Linear:
        """Train on rows x [n, x_dim], r [n, r_dim], y [n]."""
        self.pipeline.fit(_inputs(x, r), y.double().numpy())
        return self

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1) or the mean of y, [B]."""
        inputs = _inputs(x, r)
        if self.binary:
            return torch.as_tensor(self.pipeline.predict_proba(inputs)[:, 1])
        return torch.as_tensor(self.pipeline.predict(inputs))


class DefaultMembers:
    """What `pyro_gcm.fit_members` makes of a table when nothing else is chosen.

    :param seed: of the weights, the batches and the rows for early stopping.
    """

    model: GCM

    def __init__(self, *, response: Literal["binary", "continuous"], seed: int) -> None:
        self.response, self.seed = response, seed

    def fit(self, x: Tensor, r: Tensor, y: Tensor) -> DefaultMembers:
        """Train on rows; returns itself."""
        options: dict[str, Any] = {"response": self.response, "seed": self.seed}
        self.model = fit_members(x, r, y, **options, device="cpu", progress=False).model
        return self

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1) or the mean, [B]."""
        return self.model.predict(x, r)


def _inputs(x: Tensor, r: Tensor) -> npt.NDArray[Any]:
    """[x, r] in float64: scikit-learn solves float32 in float32."""
    return torch.cat([x, r], 1).double().cpu().numpy()
