"""The base class of the baselines: a module of (x, r) with a loss and `predict`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.torch_state import evaluating, one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    full_precision,
    matrix,
    one_of,
    same_rows,
)

#: Names of the responses that baselines model.
ResponseName = Literal["binary", "continuous", "quantile"]


class Baseline(nn.Module):
    """A score s(x, r) of standardised inputs, `decode(encode(x), r)`.

    A subclass defines these two methods, or sets `network`, a module that has them.

    :param x_dim: number of covariates.
    :param r_dim: number of revenues, the monotone inputs.
    :param response: for "binary", Pr(y = 1) is the sigmoid of the score and the loss is the cross
        entropy; for "continuous", the score is the mean and the loss the squared error; for
        "quantile", the score is the quantile at level r[:, 0], the only revenue, and the loss is
        the pinball loss (paper, section 4.1). The last two are in standardised units of y.
    :raises ValueError: for an unknown response, or several columns of quantile levels.
    """

    #: Whether the score is non-decreasing in every revenue by construction.
    strict: ClassVar[bool] = False
    network: Any

    def __init__(self, x_dim: int, r_dim: int, *, response: ResponseName = "binary") -> None:
        super().__init__()
        one_of("response", response, get_args(ResponseName))
        self.x_dim, self.r_dim, self.response = x_dim, r_dim, response
        if response == "quantile" and r_dim != 1:
            raise ValueError(
                f"r_dim must be 1, the quantile level, for response='quantile', got {r_dim}"
            )
        self.x_units, self.r_units = Standardizer(x_dim), Standardizer(r_dim)
        self.y_units = Standardizer(1)

    def learn_units(self, x: Tensor, r: Tensor, y: Tensor) -> None:
        """Learn means and standard deviations of x, r and, unless it is binary, y from rows.

        :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n].
        """
        self.x_units.learn(x)
        self.r_units.learn(r)
        if self.response != "binary":
            self.y_units.learn(y.unsqueeze(-1))

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The part of the score that depends only on standardised x [..., x_dim]."""
        return self.network.encode(x)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Score [...] from `encode(x)` and standardised r [..., r_dim], which broadcast."""
        return self.network.decode(encoded, r).squeeze(-1)

    def score(self, x: Tensor, r: Tensor) -> Tensor:
        """Score [B] for standardised x [B, x_dim] and r [B, r_dim]."""
        return self.decode(self.encode(x), r)

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        """Score [B] for x [B, x_dim] and r [B, r_dim] in the units of the data.

        :raises ValueError: for wrong shapes, which would otherwise broadcast.
        """
        self._check_shapes(x, r)
        return self.score(self.x_units(x), self.r_units(r))

    def loss(self, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
        """Mean loss for x [B, x_dim], r [B, r_dim] and y [B], given in the units of the data.

        :raises ValueError: for wrong shapes, which would otherwise broadcast.
        """
        self._check_shapes(x, r)
        if y.shape != x.shape[:1]:
            raise ValueError(f"y must have shape [{len(x)}], got {tuple(y.shape)}")
        return self.standard_loss(*self.standardized(x, r, y))

    def standardized(self, x: Tensor, r: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """The arguments of `standard_loss` for rows x, r and y in the units of the data."""
        if self.response != "binary":
            y = self.y_units(y.unsqueeze(-1)).squeeze(-1)
        return self.x_units(x), self.r_units(r), r[:, 0], y

    def standard_loss(self, x: Tensor, r: Tensor, level: Tensor, y: Tensor) -> Tensor:
        """Mean loss for standardised x and r, penalties included.

        :param level: the first revenue in the units of the data, [B]: the quantile level of
            response="quantile".
        :param y: outcomes [B], standardised unless they are binary.
        """
        return self.data_loss(self.score(x, r), level, y)

    def data_loss(self, score: Tensor, level: Tensor, y: Tensor) -> Tensor:
        """Mean cross entropy, squared error or pinball loss of scores [B], without penalties."""
        if self.response == "binary":
            return functional.binary_cross_entropy_with_logits(score, y.to(score.dtype))
        if self.response == "continuous":
            return functional.mse_loss(score, y)
        return pinball_loss(score, level.to(score.dtype), y)

    @one_thread()
    @torch.no_grad()
    def predict(self, x: ArrayLike, r: ArrayLike) -> Tensor:
        """Pr(y = 1), the mean, or the quantile at level r[:, 0], [B], in the units of y.

        Runs without gradients and in evaluation mode. Inputs move to the device of the model, and
        the result is on that of the first tensor among them, or on the CPU if both are arrays.

        :param x: [B, x_dim]; `r`: [B, r_dim], in the units of the data.
        :raises ValueError: for wrong shapes or values that are not finite.
        """
        device = device_of(x, r)
        x, r = self._inputs(x, "r", r)
        same_rows(x=x, r=r)
        with evaluating(self):
            return self._response(self(x, r)).to(device)

    @one_thread()
    @torch.no_grad()
    def surface(self, x: ArrayLike, revenues: ArrayLike, *, cached: bool = True) -> Tensor:
        """Predictions [B, R] for x [B, x_dim] at every row of `revenues` [R, r_dim].

        :param cached: whether to encode x once, as `GCM.surface` does. Otherwise all B x R pairs
            are evaluated separately, as in the paper's timings of the baselines (appendix G).
        """
        device = device_of(x, revenues)
        x, revenues = self._inputs(x, "revenues", revenues)
        with evaluating(self):
            if cached:
                encoded = tuple(part.unsqueeze(1) for part in self.encode(self.x_units(x)))
                return self._response(self.decode(encoded, self.r_units(revenues))).to(device)
            pairs = x.repeat_interleave(len(revenues), 0), revenues.repeat(len(x), 1)
            return self._response(self(*pairs)).reshape(len(x), len(revenues)).to(device)

    def _inputs(self, x: ArrayLike, name: str, r: ArrayLike) -> tuple[Tensor, Tensor]:
        full_precision(self)
        device = self.r_units.loc.device
        columns = matrix("x", x, self.x_dim, "x_dim", device)
        revenues = matrix(name, r, self.r_dim, "r_dim", device)
        self.check_revenues(name, revenues)
        return columns, revenues

    def check_revenues(self, name: str, r: Tensor) -> None:
        """Check that the quantile levels [B, 1] of response="quantile" are inside (0, 1).

        :param name: name of the argument in the error message.
        :raises ValueError: for levels outside (0, 1).
        """
        if self.response == "quantile" and not ((r > 0) & (r < 1)).all():
            raise ValueError(
                f"{name} must lie strictly between 0 and 1 for response='quantile', got values "
                f"from {float(r.min()):g} to {float(r.max()):g}"
            )

    def _check_shapes(self, x: Tensor, r: Tensor) -> None:
        if x.shape != (len(r), self.x_dim) or r.shape != (len(x), self.r_dim):
            raise ValueError(
                f"x and r must have shapes [B, {self.x_dim}] and [B, {self.r_dim}], got "
                f"{tuple(x.shape)} and {tuple(r.shape)}"
            )

    def _response(self, score: Tensor) -> Tensor:
        if self.response == "binary":
            return score.sigmoid()
        return self.y_units.inverse(score.unsqueeze(-1)).squeeze(-1)


def device_of(*inputs: ArrayLike) -> torch.device:
    """The device of the first tensor, the CPU if all are arrays."""
    return next((v.device for v in inputs if isinstance(v, Tensor)), torch.device("cpu"))


def pinball_loss(prediction: Tensor, level: Tensor, y: Tensor) -> Tensor:
    """Mean pinball loss rho_level(y - prediction) at quantile levels (paper, section 4.1).

    :param prediction: predicted quantiles; `level`: quantile levels; `y`: outcomes, all [B].
    """
    error = y - prediction
    with torch.no_grad():
        # The slope of max(level * error, (level - 1) * error); at 0 the mean of both.
        slope = (error.sign() - 1.0).mul_(0.5) + level
    return (slope * error).mean()
