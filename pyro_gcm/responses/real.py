"""Responses whose y is a number: the two of the paper, and its whole distribution (Lemma 1)."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.validation import one_of, positive_int
from pyro_gcm.distributions import AlongAxis, OrderEvent, ThresholdNormal, ThresholdQuantile
from pyro_gcm.nets.networks import Hidden, mlp, positive
from pyro_gcm.prediction.predictive import DistributionPredictive
from pyro_gcm.responses.axis import AxisResponse
from pyro_gcm.responses.response import Response

#: Numbers of costs that are evaluated at once.
_AT_ONCE = 1 << 16
#: Panels of three thresholds each of the sum that is the mean.
_PANELS = 32


class RealOutcome(Response):
    """Base of responses whose y is a number in units of its own, which are learned."""

    standardizer: Standardizer

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
        """Learn mean and standard deviation."""
        self.standardizer.learn(y.unsqueeze(-1))

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


@recorded("models.WholeDistribution")
class WholeDistribution(RealOutcome, AxisResponse, name="distribution"):
    """A real y whose whole distribution is the order event at [-t, r] (paper, Lemma 1).

    1 - F(t | z, x, r) is the probability of the event once -t has been added to the revenues by its
    own map. y is stochastically ordered in r, so that its quantiles cannot cross and rise with r.
    Nothing is assumed of its shape. The prediction is its mean, over the range of the training rows
    with a tenth of it and a standard deviation on each side: a sum over thresholds that lie as
    dense as the training rows.

    :param knots: bends of the map of -t.
    """

    predicts = "mean"
    predictive = DistributionPredictive
    sign = -1.0
    ends: Tensor
    thresholds: Tensor
    steps: Tensor

    def __init__(self, x_dim: int = 0, hidden: Any = 16, *, knots: int = 8) -> None:
        super().__init__(knots)
        for name in ("ends", "thresholds", "steps"):
            self.register_buffer(name, torch.zeros(0))
        self._place_thresholds(torch.special.ndtri(torch.linspace(1e-4, 1.0 - 1e-4, 200).double()))

    def _place_thresholds(self, positions: Tensor) -> None:
        """Three nodes on each of the panels between quantiles of rows [n], and beyond them.

        The panels of the outer tenths grow geometrically, so that outliers need only a few.
        """
        panels, rows = _PANELS, positions.double()
        outer = panels // 4
        shares = torch.linspace(0.1, 0.9, panels - 2 * outer + 1, dtype=torch.float64)
        inner = rows.quantile(shares.to(rows.device))
        margin = 0.1 * (rows.max() - rows.min()) + 1.0
        step = (inner[-1] - inner[0]) / len(inner) + 1e-9
        growth = torch.linspace(0.0, 1.0, outer, dtype=torch.float64, device=rows.device)
        below, above = inner[0] - rows.min() + margin, rows.max() + margin - inner[-1]
        low, high = (step * (reach / step).pow(growth) for reach in (below, above))
        cuts = torch.cat([(inner[0] - low).flip(0), inner, inner[-1] + high])
        half = 0.5 * cuts.diff().unsqueeze(-1)
        nodes = half.new_tensor([-math.sqrt(0.6), 0.0, math.sqrt(0.6)])
        weights = half.new_tensor([5.0, 8.0, 5.0]) / 9.0
        self.ends = torch.stack([cuts[0], cuts[-1]]).to(self.ends.device)
        self.thresholds = (cuts[:-1, None] + half * (1.0 + nodes)).flatten().to(self.ends.device)
        self.steps = (half * weights).flatten().to(self.ends.device)

    def check_parts(self, revenue_map: Any, p0: Any) -> None:
        """Check the parts as `AxisResponse` does, and refuse infinite costs."""
        super().check_parts(revenue_map, p0)
        if p0 is not None:
            raise ValueError(
                "p0 must be left out with response='distribution': a cost that may be infinite "
                "would leave y at -inf with that probability"
            )

    def learn_unit(self, y: Tensor) -> None:
        """Learn mean, standard deviation, range, and the knots of the map."""
        self.standardizer.learn(y.unsqueeze(-1))
        position = self.position(y.double())
        self._place_thresholds(position)
        self.axis.learn(position.unsqueeze(-1))

    def standardized(self, y: Tensor) -> Tensor:
        """y less its mean, over its standard deviation."""
        return -self.position(y.double())

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> AlongAxis:
        """y in its units."""
        return AlongAxis(event, self.axis_of(x), self)

    def expected(self, p_y: AlongAxis) -> Tensor:
        """The mean of y within its range, with gradients."""
        at = self.thresholds.double().reshape(-1, *(1 for _ in p_y.batch_shape))
        chance = p_y.curve.at(p_y.axis(at)[0]).probabilities64()[1]
        return self._above_lowest(torch.tensordot(self.steps.double(), chance, 1))

    def predict(self, p_y: AlongAxis) -> Tensor:
        """The mean of y within its range: the lowest value and the sum of Pr(y > t) dt above it."""
        event, above = p_y.event, torch.zeros((), dtype=torch.float64)
        many = max(1, _AT_ONCE // math.prod((*event.batch_shape, *event.cost_shape)))
        for some, steps in zip(self.thresholds.split(many), self.steps.split(many), strict=True):
            at = some.double().reshape(-1, *(1 for _ in event.batch_shape))
            chances = p_y.curve.probability(p_y.axis(at)[0])
            for chance, step in zip(chances, steps.double(), strict=True):
                above = above + step * chance
        return self._above_lowest(above)

    def _above_lowest(self, above: Tensor) -> Tensor:
        return self.value(self.ends[1].double()) + self.standardizer.scale.double() * above
