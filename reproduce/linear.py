"""A linear model with the interface of the baselines."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor


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


def _inputs(x: Tensor, r: Tensor) -> npt.NDArray[Any]:
    """[x, r] in float64: scikit-learn solves float32 in float32."""
    return torch.cat([x, r], 1).double().cpu().numpy()
