"""Counts of events over an exposure: a Poisson process whose rate rises with the order event."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import ArrayLike, InvalidValue, as_tensor, one_of, vector
from pyro_gcm.distributions import EventCount, OrderEvent
from pyro_gcm.distributions.event_count import log_count_prob
from pyro_gcm.nets.networks import Hidden, mlp, positive
from pyro_gcm.prediction.counts import CountPredictive
from pyro_gcm.responses.response import Response

#: The smallest dispersion, and the raw number where it starts.
_LEAST, _START = 1e-4, -1.0


@recorded("models.Count")
class Count(Response, name="count"):
    """The number of events within an exposure, such as claims in years of a policy.

    Given z events are those of a Poisson process, whose rate may be gamma-distributed::

        log rate = mu_t(x) + spread(x) * Phi^-1(Pr(c < r)),   N ~ Poisson(exposure * rate * g)

    so that N is Poisson or negative binomial, and z mixes. N >= k exactly if the k-th event comes
    within the exposure, which so is one more revenue: N is stochastically ordered in every column
    of r and in the exposure. `p0` of the model is a probability that no event ever comes, for more
    zeros than these have; a model with it has one alternative.

    y is the counts [n], each over one unit of exposure, or counts and exposures [n, 2]; `fit`,
    `predict` and `predictive` take `exposure` as an argument of its own. The prediction is the mean
    count: the rate, for one unit of exposure. Draws of y have one unit of it. Posteriors have a
    site `rate`, exactly Gamma(1 / d + N, 1 / (d rate) + exposure) given z and N, for dispersion d.

    :param dispersion: of the gamma distribution of g: "constant", "conditional" (a function of x),
        or None for a Poisson count given z.
    """

    predicts = "mean count"
    predictive = CountPredictive
    log_likelihood_bound = 0.0
    outcome_width = 2
    needs_gcm = "its rate rises with them"
    log_unit: Tensor

    def __init__(
        self, x_dim: int, hidden: Hidden = 16, *, dispersion: str | None = "constant"
    ) -> None:
        super().__init__()
        if dispersion is not None:
            one_of("dispersion", dispersion, ["constant", "conditional"])
        self.dispersion = dispersion
        self.net = mlp(x_dim, 3 if dispersion == "conditional" else 2, hidden)
        constant = torch.tensor(_START) if dispersion == "constant" else None
        self.raw_dispersion = None if constant is None else nn.Parameter(constant)
        self.register_buffer("log_unit", torch.tensor(0.0, dtype=torch.float64))

    def prepare(self, model: Any, cost_shape: tuple[int, ...]) -> None:
        """Refuse several alternatives that may be infinite, each for itself."""
        self.attach(model)
        if model.infinite_net is not None and len(cost_shape) > 1:
            raise ValueError("p0 needs alternatives=1 with response='count'")

    def outcome(self, y: ArrayLike, device: torch.device | None = None) -> Tensor:
        """Counts and exposures, [n, 2] in float64."""
        given = as_tensor("y", y, device)
        if given.dim() == 2 and given.shape[1] == 2:
            columns = [vector("y", column).double() for column in given.unbind(1)]
        else:
            counts = vector("y", given).double()
            columns = [counts, torch.ones_like(counts)]
        return torch.stack(columns, 1)

    def exposed(self, y: ArrayLike, exposure: ArrayLike) -> Tensor:
        """Checked counts [n] and exposures [n] as columns."""
        counts = vector("y", y)
        columns = torch.stack([counts.double(), self.exposure_of(exposure, counts)], 1)
        self.check_outcome(columns)
        return columns

    def exposure_of(self, exposure: ArrayLike, rows: Any) -> Tensor:
        """Checked exposures of rows, [n] in float64, on their device."""
        found = vector("exposure", exposure, rows.device).double()
        _refuse(found, found <= 0.0, "exposure must be above 0")
        if len(found) != len(rows):
            raise ValueError(f"row counts differ: x has {len(rows)}, exposure has {len(found)}")
        return found

    def check_outcome(self, y: Tensor) -> None:
        """Whole numbers of events, and exposures above 0."""
        count, exposure = y.unbind(1)
        _refuse(count, (count < 0.0) | (count != count.round()), "y must have whole numbers from 0")
        _refuse(exposure, exposure <= 0.0, "y must have exposures above 0")

    def learn_unit(self, y: Tensor) -> None:
        """Learn the rate of all rows together."""
        count, exposure = y.double().sum(0)
        self.log_unit.copy_(((count + 0.5) / exposure).log())

    def standardized(self, y: Tensor) -> Tensor:
        """The logarithm of the rate of a row, with half an event more, less that of all."""
        count, exposure = y.double().unbind(-1)
        return ((count + 0.5) / exposure).log() - self.log_unit

    def constant_loss(self, y: Tensor, share: Tensor) -> float | None:
        """That of a negative binomial count with the dispersion of the moments."""
        count, exposure = y.unbind(1)
        mean = exposure * (share @ count) / (share @ exposure)
        extra = share @ ((count - mean).square() - mean) / (share @ mean.square())
        log_p = share @ log_count_prob(count, mean.log(), extra.clamp(min=_LEAST))
        return float(-log_p)

    def nothing_to_learn(self, low: Tensor, high: Tensor) -> str | None:
        """Where no row has an event."""
        return None if high[0] > 0.0 else "y has no event in any row: there is nothing to learn"

    def columns_of(self, y: Tensor) -> dict[str, Tensor]:
        """Counts and exposures."""
        return dict(zip(("y", "exposure"), y.unbind(-1), strict=True))

    def drawn(self, y: Tensor) -> Tensor:
        """Counts."""
        return y[..., 0]

    def derived(self, p_y: EventCount, cost: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        """rate, given y where it is given; 0 where no event ever comes."""
        return {"rate": p_y.draw_rate(cost, y)}

    def expected(self, p_y: EventCount) -> Tensor:
        """The mean number of events in a unit of exposure, with gradients."""
        return p_y.expected()

    @property
    def constant_dispersion(self) -> Tensor:
        """The dispersion of all rows, for dispersion "constant"."""
        assert self.raw_dispersion is not None
        return _positive(self.raw_dispersion)

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> EventCount:
        """p(count, exposure | z, x, r) for known exposures."""
        raw = self.net(x)
        loc = self.log_unit + raw[..., 0].double()
        dispersion = None
        if self.dispersion is not None:
            conditional = self.raw_dispersion is None
            dispersion = _positive(raw[..., 2]) if conditional else self.constant_dispersion
        return EventCount(event, loc, positive(raw[..., 1]), dispersion, validate_args=False)


def _positive(raw: Tensor) -> Tensor:
    return _LEAST + softplus(raw.double())


def _refuse(values: Tensor, wrong: Tensor, rule: str) -> None:
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InvalidValue(f"{rule}, got {values[row]:g}", row)
