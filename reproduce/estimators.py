"""Estimators that are fitted in one call: a linear model, and one that is not shown x."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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
        self.pipeline.fit(torch.cat([x, r], 1).numpy(), y.numpy())
        return self

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1) or the mean of y, [B]."""
        inputs = torch.cat([x, r], 1).cpu().numpy()
        if self.binary:
            return torch.as_tensor(self.pipeline.predict_proba(inputs)[:, 1])
        return torch.as_tensor(self.pipeline.predict(inputs))


class RevenuesAlone:
    """An estimator that is trained and evaluated on r alone."""

    def __init__(self, make: Callable[..., Any], **options: Any) -> None:
        self.estimator = make(**options)

    @classmethod
    def around(cls, make: Callable[..., Any]) -> Callable[..., RevenuesAlone]:
        """A maker of such an estimator, from a maker of one that reads x."""
        return partial(cls, make)

    def fit(self, x: Tensor, r: Tensor, y: Tensor) -> RevenuesAlone:
        """Train on r [n, r_dim] and y [n]."""
        self.estimator.fit(x[:, :0], r, y)
        return self

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1) or the mean of y, [B]."""
        prediction: Tensor = self.estimator.predict(x[:, :0], r)
        return prediction
