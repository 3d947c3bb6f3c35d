"""Members with the defaults of the library, as an estimator of the tables."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from pyro_gcm import GCM, fit_members


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
