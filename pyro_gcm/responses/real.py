"""The responses of the paper, and a guess rate, which turn the event into a distribution of y.

A response turns the event c < h(r), given z, into the distribution at site y, and says what a
prediction is. The models know nothing else about y, so another kind is another subclass of
`Response`.
"""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.validation import one_of, positive_int, share
from pyro_gcm.distributions import GuessedEvent, OrderEvent, ThresholdNormal, ThresholdQuantile
from pyro_gcm.nets.networks import ConstantLogits, Hidden, mlp, positive
from pyro_gcm.prediction.predictive import DistributionPredictive
from pyro_gcm.responses.response import Binary, Response

#: Largest size of y in its unit; the inverse is its smallest spread.
_LARGEST = 1e100


@recorded("models.Guessed")
class Guessed(Binary):
    """y in {0, 1} with Pr(y = 1) = g + (1 - g) Pr(event): it does not fall to 0 as r falls.

    With costs that may be infinite (`p0` of `GCM`) the curve runs from the guess rate g to
    g + (1 - g)(1 - p0), where (1 - g) p0 is the lapse rate. Few data tell these ends; give `rate`
    where the guess rate is known, such as 1/2 for two choices.

    :param guess: "constant", or "conditional" for a function of x.
    :param rate: a known guess rate in (0, 1), which is not trained.
    """

    def __init__(
        self,
        x_dim: int = 0,
        hidden: Any = 16,
        *,
        guess: str = "constant",
        rate: float | None = None,
    ) -> None:
        super().__init__()
        one_of("guess", guess, ["constant", "conditional"])
        if rate is not None:
            share("rate", rate, "a probability")
            if guess != "constant":
                raise ValueError(f"guess={guess!r} and rate={rate} contradict each other")
        self.guess, self.rate, self.hidden = guess, rate, hidden

    def prepare(self, model: Any, cost_shape: tuple[int, ...]) -> None:
        """Build what gives the log-odds of the guess rate for what is read of x."""
        self.attach()
        self.logits: nn.Module = ConstantLogits()
        if self.rate is not None:
            assert isinstance(self.logits.logits, nn.Parameter)
            self.logits.logits.requires_grad_(False).fill_(math.log(self.rate / (1.0 - self.rate)))
        elif self.guess == "conditional":
            net = mlp(model.out_dim, 1, () if model.members else self.hidden)
            nn.init.constant_(net[-1].bias, ConstantLogits.START)  # type: ignore[arg-type]
            self.logits = nn.Sequential(net, nn.Flatten(-2))

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> Any:
        """The event or a guess."""
        return GuessedEvent(event, self.logits(x))


class RealOutcome(Response):
    """Base of responses whose y is a number in units of its own, which are learned."""

    standardizer: Standardizer

    def check_outcome(self, y: Tensor) -> None:
        """Numbers whose squares are finite."""
        size = y.abs()
        if (size > _LARGEST).any():
            wanted, got = f"at most {_LARGEST:g} in size", f"{size.nan_to_num().max().item():g}"
            raise ValueError(f"y must have numbers of {wanted}, got {got}: use another unit")

    def constant_loss(self, y: Tensor, share: Tensor) -> float | None:
        """That of a normal: its entropy."""
        variance = float(share @ (y - share @ y).square())
        return 0.5 * math.log(2.0 * math.pi * math.e * variance)

    def prediction_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Float64 where the dtype of the model cannot hold y, see `Standardizer`."""
        return torch.promote_types(dtype, self.standardizer.loc.dtype)


class _RealResponse(RealOutcome):
    """Base of real y of which a network of x gives mu_t and the spreads."""

    def __init__(self, x_dim: int, outputs: int, hidden: Hidden) -> None:
        super().__init__()
        self.net = mlp(positive_int("x_dim", x_dim, minimum=0), outputs, hidden)
        self.standardizer = Standardizer(1)

    def learn_unit(self, y: Tensor) -> None:
        """Learn mean and standard deviation.

        :raises ValueError: for a spread whose square is 0.
        """
        self.standardizer.learn(y.unsqueeze(-1))
        if self.standardizer.scale < 1.0 / _LARGEST:
            raise ValueError(
                f"y must have a spread of at least {1.0 / _LARGEST:g}, got "
                f"{self.standardizer.scale.item():g}: use another unit"
            )

    def standardized(self, y: Tensor) -> Tensor:
        """y less its mean, over its standard deviation."""
        standard: Tensor = self.standardizer(y.unsqueeze(-1))
        return standard.squeeze(-1)

    def from_standard(self, standard: Tensor) -> Tensor:
        """y from its number of standard deviations above the mean."""
        return self.standardizer.inverse(standard)

    def _threshold_loc(self, raw: Tensor) -> Tensor:
        """mu_t in the units of y, [...], from the outputs of the network."""
        return self.standardizer.inverse(raw[..., :1])[..., 0]


@recorded("models.Continuous")
class Continuous(_RealResponse, name="continuous"):
    """Gaussian y given z; the event is that y exceeds a Gaussian threshold (paper, appendix D.3).

    mu_t and sigma_t are functions of x. The prediction is the mean of y.

    :param noise: whether sigma_y is "conditional", a function of x, or "constant". The first gives
        the better distribution where the spread of y varies; the second trains the mean as least
        squares do, and is safer where the first fits its spread to single rows, as with many equal
        values of y.
    :param equal_weights: train the mean as least squares do under "conditional" noise as well, see
        `ThresholdNormal`.
    """

    predicts = "mean"
    predictive = DistributionPredictive

    def __init__(
        self,
        x_dim: int,
        hidden: Hidden = 16,
        *,
        noise: str = "conditional",
        equal_weights: bool = False,
    ) -> None:
        one_of("noise", noise, ["conditional", "constant"])
        super().__init__(x_dim, 3 if noise == "conditional" else 2, hidden)
        self.raw_noise = nn.Parameter(torch.zeros(())) if noise == "constant" else None
        self.equal_weights = equal_weights

    def _curve(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """mu_t, sigma_t and sigma_y in the units of y, each [...]."""
        raw, unit = self.net(x), self.standardizer.scale
        loc = self._threshold_loc(raw)
        noise = raw[..., 2] if self.raw_noise is None else self.raw_noise.expand_as(loc)
        return loc, unit * positive(raw[..., 1]), unit * positive(noise)

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> ThresholdNormal:
        """N(mu_y, sigma_y^2) in the units of y."""
        options: Any = {"equal_weights": self.equal_weights, "validate_args": False}
        return ThresholdNormal(event, *self._curve(x), **options)

    def averaged_loss(self, p_y: ThresholdNormal, log_p: Tensor, y: Tensor) -> Tensor:
        """The squared error of the mean of the means, in squared standard deviations of y, [B]."""
        mean = (log_p.exp() * p_y.mean).sum(0)
        return ((mean - y) / self.standardizer.scale).square()


@recorded("models.Quantile")
class Quantile(_RealResponse, name="quantile"):
    """The only revenue is a quantile level in (0, 1); the prediction is that quantile of y.

    mu_y as for continuous y, under the pinball loss (paper, section 4.1). The importance-weighted
    bound would be another objective, so the plain bound is the default here.
    """

    default_elbo = "elbo"
    predicts = "quantile"
    needs_gcm = "its revenues are levels that are chosen"
    constant_loss = Response.constant_loss

    def check_rises_in(self, revenue: int) -> None:
        """Refuse levels, which are chosen."""
        raise ValueError("required_revenue needs revenues that are not quantile levels")

    def __init__(self, x_dim: int, hidden: Hidden = 16) -> None:
        super().__init__(x_dim, 2, hidden)

    def r_dist(self) -> dist.Uniform:
        """Levels are drawn uniformly (paper, equation (qt_reg))."""
        scale = self.standardizer.scale
        return dist.Uniform(torch.zeros_like(scale), torch.ones_like(scale)).to_event(1)

    def check_revenue(self, r: Tensor) -> None:
        """One column of levels strictly between 0 and 1, in the dtype of the model as well."""
        if r.shape[1] != 1:
            raise ValueError(
                f"r must be one column of quantile levels for response='quantile', got {r.shape[1]}"
            )
        low, high = r.aminmax()
        dtype = self.standardizer.dtype
        if low.to(dtype) <= 0 or high.to(dtype) >= 1:
            raise ValueError(
                "r must lie strictly between 0 and 1 for response='quantile', also in the type of "
                f"the model, {dtype}, got values from {low:.12g} to {high:.12g}"
            )

    def _curve(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """mu_t and the spread sqrt(sigma_y^2 + sigma_t^2) in the units of y, each [...]."""
        raw = self.net(x)
        return self._threshold_loc(raw), self.standardizer.scale * positive(raw[..., 1])

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> TorchDistribution:
        """An asymmetric Laplace density at the quantile; the pinball loss in units of sd(y)."""
        loc, spread = self._curve(x)
        level = r[..., 0].to(loc.dtype)
        unit = self.standardizer.scale
        return ThresholdQuantile(event, loc, spread, level, unit, validate_args=False)

    def expected(self, p_y: ThresholdQuantile) -> Tensor:
        """The quantile, with gradients."""
        return p_y.loc

    def averaged_loss(self, p_y: ThresholdQuantile, log_p: Tensor, y: Tensor) -> Tensor:
        """The pinball loss of the mean of the quantiles, but for a constant, [B]."""
        mean = (log_p.exp() * p_y.loc).sum(0)
        own = p_y.laplace
        return -dist.AsymmetricLaplace(mean, own.scale[0], own.asymmetry[0]).log_prob(y)
