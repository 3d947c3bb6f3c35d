"""What every baseline is: a module of (x, r) with a loss and `predict`."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from pyro_gcm._evaluating import evaluating
from pyro_gcm._standardizer import Standardizer
from pyro_gcm._validation import ArrayLike, matrix, one_of, positive_int, same_rows

Response = Literal["binary", "continuous", "quantile"]


class Baseline(nn.Module):
    """A score s(x, r) of standardised inputs: `decode(encode(x), r)`, as a subclass says.

    :param x_dim: number of covariates.
    :param r_dim: number of revenues, the monotone inputs.
    :param response: "binary": Pr(y = 1) is the sigmoid of the score, the loss its cross entropy;
        "continuous": the score is the mean, the loss the squared error; "quantile": the score is
        the quantile of level r[:, 0], the only revenue, the loss the pinball loss (paper, section
        4.1). The last two are in standardised units of y.
    :raises ValueError: for sizes below 1, an unknown response, or levels in several columns.
    """

    #: Whether the score rises with every revenue by construction.
    strict: ClassVar[bool] = False

    def __init__(self, x_dim: int, r_dim: int, *, response: Response = "binary") -> None:
        super().__init__()
        one_of("response", response, ["binary", "continuous", "quantile"])
        self.x_dim = positive_int("x_dim", x_dim)
        self.r_dim = positive_int("r_dim", r_dim)
        self.response = response
        if response == "quantile" and r_dim != 1:
            raise ValueError(f"r_dim must be 1, the level, for response='quantile', got {r_dim}")
        self.x_units, self.r_units = Standardizer(x_dim), Standardizer(r_dim)
        self.y_units = Standardizer(1)

    def learn_units(self, x: Tensor, r: Tensor, y: Tensor) -> None:
        """Standardise x, r and, unless it is binary, y by the mean and spread of these rows."""
        self.x_units.learn(x)
        self.r_units.learn(r)
        if self.response != "binary":
            self.y_units.learn(y.unsqueeze(-1))

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The part of the score that reads standardised x [..., x_dim] alone."""
        raise NotImplementedError

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Score [...] of `encode(x)` and standardised r [..., r_dim], which broadcast."""
        raise NotImplementedError

    def score(self, x: Tensor, r: Tensor) -> Tensor:
        """Score [B] of standardised x [B, x_dim] and r [B, r_dim]."""
        return self.decode(self.encode(x), r)

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        """Score [B] of x [B, x_dim] and r [B, r_dim] in the units of the data.

        :raises ValueError: for wrong shapes, which would broadcast.
        """
        self._check_shapes(x, r)
        return self.score(self.x_units(x), self.r_units(r))

    def loss(self, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
        """Mean loss of the rows x [B, x_dim], r [B, r_dim], y [B], in the units of the data.

        :raises ValueError: for wrong shapes, which would broadcast.
        """
        self._check_shapes(x, r)
        if y.shape != x.shape[:1]:
            raise ValueError(f"y must have shape [{len(x)}], got {tuple(y.shape)}")
        return self.standard_loss(self.x_units(x), self.r_units(r), r, y)

    def standard_loss(self, x: Tensor, r: Tensor, level: Tensor, y: Tensor) -> Tensor:
        """Mean loss of standardised x and r; `level` is r as it came. Penalties are added here."""
        return self.data_loss(self.score(x, r), level, y)

    def data_loss(self, score: Tensor, level: Tensor, y: Tensor) -> Tensor:
        """Mean cross entropy, squared error or pinball loss of scores [B]."""
        if self.response == "binary":
            return functional.binary_cross_entropy_with_logits(score, y.to(score.dtype))
        standard = self.y_units(y.unsqueeze(-1)).squeeze(-1)
        if self.response == "continuous":
            return functional.mse_loss(score, standard)
        return pinball_loss(score, level[:, 0].to(score.dtype), standard)

    @torch.no_grad()
    def predict(self, x: ArrayLike, r: ArrayLike) -> Tensor:
        """Pr(y = 1), the mean or the quantile of level r[:, 0], [B], in the units of y.

        Inputs move to the device of the model, and the result is on that of the first tensor among
        them, or on the CPU if both are arrays.

        :raises ValueError: for wrong shapes or values that are not finite.
        """
        device = device_of(x, r)
        x, r = self._inputs(x, "r", r)
        same_rows(x=x, r=r)
        with evaluating(self):
            return self._response(self(x, r)).to(device)

    @torch.no_grad()
    def surface(self, x: ArrayLike, revenues: ArrayLike, *, cached: bool = True) -> Tensor:
        """Predictions [B, R] of x [B, x_dim] at every revenue of `revenues` [R, r_dim].

        :param cached: encode x once, as `GCM.surface` does; else evaluate all B x R pairs anew, as
            the paper times the baselines (appendix G).
        """
        device = device_of(x, revenues)
        x, revenues = self._inputs(x, "revenues", revenues)
        with evaluating(self):
            if cached:
                encoded = tuple(part.unsqueeze(1) for part in self.encode(self.x_units(x)))
                return self._response(self.decode(encoded, self.r_units(revenues))).to(device)
            every = x.repeat_interleave(len(revenues), 0), revenues.repeat(len(x), 1)
            return self._response(self(*every)).reshape(len(x), len(revenues)).to(device)

    def _inputs(self, x: ArrayLike, name: str, r: ArrayLike) -> tuple[Tensor, Tensor]:
        columns = matrix("x", x, self.x_dim, "x_dim")
        revenues = matrix(name, r, self.r_dim, "r_dim")
        self.check_revenues(name, revenues)
        device = self.r_units.loc.device
        return columns.to(device), revenues.to(device)

    def check_revenues(self, name: str, r: Tensor) -> None:
        """An error for levels [B, 1] of quantiles that are not inside (0, 1).

        :raises ValueError: naming the argument.
        """
        if self.response == "quantile" and not ((r > 0) & (r < 1)).all():
            raise ValueError(
                f"{name} must lie strictly between 0 and 1, the levels of response='quantile', got "
                f"{float(r.min()):g} to {float(r.max()):g}"
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
    """Mean of rho_level(y - prediction) (paper, section 4.1); all of shape [B]."""
    error = y - prediction
    return torch.maximum(level * error, (level - 1.0) * error).mean()
