"""The generative cost model (paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._validation import ArrayLike, matrix, one_of, positive_int
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.deferred import Deferred
from pyro_gcm.inference.common_noise import BLOCK_ROWS, coarse, in_blocks, on_grid
from pyro_gcm.inference.cost_guard import CostGuard
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.models.hidden_revenue import completed_revenues, w_given_revenues
from pyro_gcm.models.inversion import required_revenue
from pyro_gcm.models.missing import (
    columns_in_units,
    complete,
    draw_missing,
    in_units,
    observe_partly,
)
from pyro_gcm.models.order_event_model import OrderEventModel, hidden_widths
from pyro_gcm.models.partly_observed import checked_costs, observe_costs, observe_outcome
from pyro_gcm.models.parts import refuse_unused_decoder, revenue_map_part
from pyro_gcm.models.predictions import Encoded, prediction
from pyro_gcm.models.responses import Response
from pyro_gcm.models.strict_objectives import strict_pair
from pyro_gcm.nets import Conditional, Identity, StandardNormal
from pyro_gcm.nets import with_missing_indicators as with_missing
from pyro_gcm.nets.conditional import joined


class GCM(OrderEventModel):
    """Strictly monotone p(y | x, r): y is the event that a latent cost stays below the revenue.

    Generative story, every name a Pyro site::

        z ~ p(z) or p(z|x)      # what the row is like
        x ~ p(x|z)              # covariates (with p(z|x) they are an input)
        w ~ N(0, I)             # what else sets the revenue
        r ~ p(r|w, x)           # revenues, in which y is to increase
        c ~ p(c|z)              # costs, independent of r given x
        y = 1 if c < r in the product order, else 0

    The sites x, r and y are in the units of the data, c in the units of the standardised revenues
    (after the revenue map, if there is one). `model` is the explicit program; train
    `inference.conditional(model)`, as `fit` does, or the whole of it with objective "joint".

    `predict` and `surface` increase in r, across calls and batch sizes: see
    `inference.common_noise`. After joint training the draws of z are weighted by p(z) p(x|z) /
    q(z|x), and x and r may have missing values (NaN). Rows with gaps carry no promise: what is
    known of r then speaks for what is not known of r or x, so that p(y | x, r) need not rise.

    `cost(x)` is in the units of the revenues if there is one cost for each of them: then `cdf(r)`
    is the prediction of a binary response. Behind a revenue map it is in the map's units.

    :param x_dim: number of covariates.
    :param r_dim: number of revenues m, all increasing.
    :param response: "binary", "continuous", "quantile" or a `models.responses.Response`.
    :param prior: "conditional" learns p(z|x), a diagonal normal; "laplace", "mixture" (Gaussian,
        with weights that depend on x), "flow" (a spline flow) and "categorical" (z one of z_dim
        classes, summed out exactly) are other p(z|x); "standard" is N(0, I); or a module that
        takes standardised x [B, x_dim] to a distribution of z.
    :param guide: "prior" (z drawn from p(z|x)), "amortised" (q(z|x)), "posterior" (q(z|x, r, y)),
        the last two also with the endings "_full" (full covariance) and "_flow"; or a module that
        takes (x, r, y), standardised, to a distribution of z. By default "prior", and "amortised"
        with prior "standard".
    :param z_dim: dimension D of z.
    :param hidden: width of the two tanh layers of every network, or the widths of any number.
    :param alternatives: number G of alternatives; y = 1 if the costs of at least one stay below its
        revenues. One is the paper's model, which cannot express that one revenue makes up for
        another; more can.
    :param costs: number K of costs an alternative has; one for each revenue by default.
    :param cost_family: "normal", "logistic", "laplace", a registered distribution class, or a
        module that takes z [..., D] to independent costs [..., (G,) K].
    :param revenue_map: "identity", "positive_linear", "piecewise_linear" (splines, for long tails
        and steps), "probit", "sigmoid" (bounded; paper, appendix C), an increasing torch
        `Transform`, or an increasing module from standardised revenues [..., m] to [..., (G,) K];
        one with a method `learn` is shown those of the training rows first. By default the identity
        for one alternative with a cost for each revenue (for quantile levels the probit), positive
        linear otherwise.
    :param p0: probability that an alternative costs infinitely much, so that Pr(y = 1) stays below
        1 - p0 (paper, appendix C): None for never, "constant", "conditional" (a function of x), or
        a module that takes standardised x to its logits [..., (G)].
    :param x_decoder: module that takes z [..., D] to p(x|z), standardised; with prior "standard".
    :param r_decoder: module that takes (w, x) [..., m + x_dim] to p(r|w, x), standardised.
    :param num_samples: draws of z that a prediction averages over; a power of two is best.
    :param seed: seed of the initial weights and of the prediction noise.
    :param name: prefix of the parameters in Pyro's store; unique by default, so that two models
        never share parameters there.
    :raises ValueError: for sizes below 1, unknown names, or parts that do not fit together.
    """

    objectives = ("conditional", "joint")
    _fills_missing = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        response: str | Response = "binary",
        prior: str | nn.Module = "conditional",
        guide: str | nn.Module | None = None,
        z_dim: int = 4,
        hidden: int | Sequence[int] = 16,
        alternatives: int = 1,
        costs: int | None = None,
        cost_family: str | type | nn.Module = "normal",
        revenue_map: Any = None,
        p0: str | nn.Module | None = None,
        x_decoder: nn.Module | None = None,
        r_decoder: nn.Module | None = None,
        num_samples: int = 128,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(x_dim, r_dim, z_dim, seed, name)
        hidden = hidden_widths(hidden)
        alternatives = positive_int("alternatives", alternatives)
        costs = self.r_dim if costs is None else positive_int("costs", costs)
        with self._seeded():
            self._add_costs(response, prior, guide, hidden, alternatives, costs, cost_family, p0)
            plain = self.cost_shape == (self.r_dim,)
            default_map = self.response.revenue_map if plain else "positive_linear"
            self.revenue_map = revenue_map_part(
                default_map if revenue_map is None else revenue_map,
                self.r_dim,
                self.cost_shape,
                levels=not self.response.standardizes_revenue,
            )
            self.w_prior = StandardNormal(self.r_dim)
            columns = self.r_dim + self.x_dim
            self.r_decoder = r_decoder or Conditional(dist.Normal, columns, (self.r_dim,), hidden)
            refuse_unused_decoder(x_decoder, self.reads_x)
            if not self.reads_x:
                self.x_decoder = x_decoder or Conditional(
                    dist.Normal, self.z_dim, (self.x_dim,), hidden
                )
                self.w_guide = Conditional(dist.Normal, 2 * columns, (self.r_dim,), hidden)
        # Missing values of x and r, and w, are drawn too where the program has them.
        others = 0 if self.reads_x else self.x_dim + 2 * self.r_dim
        self._add_units(num_samples, self.z_dim + others)

    # The program and its guides

    def model(
        self,
        x: Tensor | None = None,
        r: Tensor | None = None,
        y: Tensor | None = None,
        c: Tensor | None = None,
        *,
        size: int = 1,
    ) -> Tensor:
        """The explicit program; what is not given is drawn.

        :param x: [B, x_dim] in data units; needed with a conditional prior. With prior "standard"
            NaN is a missing value, here and in r.
        :param r: [B, r_dim].
        :param y: [B]; NaN where it was not seen, if c is given.
        :param c: costs that were seen, [B, r_dim] in the units of r, NaN for the others: their
            density is site `c_observed`, and site c is what they leave open.
        :param size: number of rows when neither x nor r is given.
        :returns: y, [B].
        """
        x, r, y, rows = self._program_inputs(x, r, y, size, c)
        with pyro.plate("data", rows, dim=-1):
            if self.reads_x:
                covariates = self.x_standardizer(x)
                z = self._prior_site(covariates)
                x = pyro.deterministic("x", x, event_dim=1)
            else:
                z = self._prior_site(None)
                if self._has_missing(x):
                    x = observe_partly("x", self._x_columns(z), x)
                else:
                    x = pyro.sample("x", self._x_given(z), obs=x)
                covariates = self.x_standardizer(x)
            w = pyro.sample("w", self.w_prior())
            if self._has_missing(r):
                r = observe_partly("r", self._r_columns(w, covariates), r)
            else:
                r = pyro.sample("r", self._r_given(w, covariates), obs=r)
            cost = self._cost(z, covariates)
            if c is not None:
                cost = observe_costs(cost, c, r, self.r_standardizer)
            event = OrderEvent(cost, self.revenue_map(self.r_standardizer(r)))
            p_y = self.response.distribution(event, covariates, r)
            with CostGuard():
                p_y = p_y.given_cost(pyro.sample("c", cost))
                return observe_outcome(p_y, y) if c is not None else pyro.sample("y", p_y, obs=y)

    def guide(
        self,
        x: Tensor | None = None,
        r: Tensor | None = None,
        y: Tensor | None = None,
        c: Tensor | None = None,
        *,
        size: int = 1,
    ) -> Tensor | None:
        """Guide of `inference.conditional(model)`: z from p(z|x), from q, or nothing, [B, D].

        A z with a finite support is summed out, so that the guide has no site.
        """
        if x is None:
            raise ValueError("x must be given: the guide reads it")
        x, r, y = self._checked_inputs(x, r, y, c)
        if self.enumerates:
            return None
        with pyro.plate("data", len(x), dim=-1):
            return pyro.sample("z", self._guide_distribution(x, r, y))

    def joint_guide(
        self, x: Tensor, r: Tensor, y: Tensor | None = None, c: Tensor | None = None
    ) -> None:
        """Guide of the whole program: z ~ q(z|x), w ~ q(w|x, r), and what is missing of x and r."""
        x, r, y = self._checked_inputs(x, r, y, c)
        with pyro.plate("data", len(x), dim=-1):
            z = pyro.sample("z", self._guide_distribution(x, r, y))
            w = pyro.sample("w", self._w_given(self.x_standardizer(x), self.r_standardizer(r)))
            if self._has_missing(x):
                x = draw_missing("x", self._x_columns(z), x)
            if self._has_missing(r):
                draw_missing("r", self._r_columns(w, self.x_standardizer(x)), r)

    def _has_missing(self, value: Tensor | None) -> bool:
        return not self.reads_x and value is not None and bool(value.isnan().any())

    def _x_given(self, z: Tensor) -> Deferred:
        return Deferred(
            lambda: in_units(self.x_decoder(z), self.x_standardizer),
            z.shape[:-1],
            torch.Size([self.x_dim]),
        )

    def _x_columns(self, z: Tensor) -> Any:
        return columns_in_units(self.x_decoder(z), self.x_standardizer)

    def _r_given(self, w: Tensor, covariates: Tensor) -> Any:
        revenue = self.response.revenue()
        if revenue is not None:
            return revenue
        return Deferred(
            lambda: in_units(self._r_standard(w, covariates), self.r_standardizer),
            torch.broadcast_shapes(w.shape[:-1], covariates.shape[:-1]),
            torch.Size([self.r_dim]),
        )

    def _r_standard(self, w: Tensor, covariates: Tensor) -> Any:
        return self.r_decoder(joined(w, covariates))

    def _r_columns(self, w: Tensor, covariates: Tensor) -> Any:
        return columns_in_units(self._r_standard(w, covariates), self.r_standardizer)

    def _w_given(self, covariates: Tensor, r: Tensor) -> Any:
        """q(w | x, r), for standardised x and r."""
        return self.w_guide(joined(*map(with_missing, (covariates, r))))

    # What is trained

    def check_costs(self, c: ArrayLike, r: Tensor | None, y: Tensor | None) -> Tensor:
        """Costs that were seen, [B, r_dim] in the units of r, NaN where one was not.

        :raises ValueError: for another response or revenue map, whose costs have no such units, for
            a guide that reads an outcome that is missing, for costs that contradict y, and for a
            cost and an outcome that were seen where r is missing.
        """
        return checked_costs(self, c, r, y)

    def training_pair(self, objective: str = "conditional") -> TrainingPair:
        """The program and the guide of an objective.

        "conditional" is log p(y | x, r). "joint" is log p(x, r, y): the whole program.

        :raises ValueError: where an objective has no meaning for this model.
        """
        one_of("objective", objective, self.objectives)
        return strict_pair(self, objective)

    def _untrained(self, objective: str) -> tuple[str, ...]:
        return () if objective == "joint" else ("x_decoder.", "r_decoder.", "w_guide.")

    def _revenue_given(self, r: Tensor, sites: Mapping[str, Tensor]) -> Tensor:
        return self._mapped(sites.get("r", r))

    # Predictions

    @prediction
    def surface(
        self, x: ArrayLike, revenues: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """Predictions for every row of x at every row of revenues; x is encoded once.

        :param x: [B, x_dim] in data units.
        :param revenues: [R, r_dim].
        :returns: [B, R].
        """
        x = matrix("x", x, self.x_dim, "x_dim", self.device)
        revenues = self._revenues("revenues", revenues)
        noise = self._noise(num_samples)
        mapped = in_blocks(self._mapped, revenues)

        def block(x: Tensor) -> Tensor:
            encoded = self._encode(x, noise).against_revenues()
            cost = self._cost(encoded.z, encoded.covariates)  # batch [N, b, 1]
            parts = mapped.split(BLOCK_ROWS // 8)
            return torch.cat(
                [self._average(OrderEvent(cost, part), encoded) for part in parts], dim=-1
            )

        return in_blocks(block, x).to(noise.dtype)

    @prediction
    def required_revenue(
        self,
        x: ArrayLike,
        level: float = 0.9,
        *,
        revenue: int = 0,
        r: ArrayLike | None = None,
        num_samples: int | None = None,
    ) -> Tensor:
        """The smallest value of one revenue at which the prediction reaches a level, [B].

        The cheapest bid that wins with probability 0.9, the smallest dose that half of the patients
        respond to. It is found by bisection of `predict`, whose units it has.

        :param x: [B, x_dim] in data units.
        :param level: of the prediction: a probability, or a value of y.
        :param revenue: which revenue is looked for.
        :param r: [B, r_dim] or [r_dim], the other revenues; their training means by default.
        :returns: inf where no revenue reaches the level, -inf where every revenue does (within
            2^20 standard deviations of the training data).
        :raises ValueError: for a revenue that is not there, and for quantile levels.
        """
        return required_revenue(self, x, level, revenue, r, num_samples)

    def _revenues(self, name: str, r: ArrayLike, *, missing: bool = False) -> Tensor:
        missing = name == "r" and self.objective == "joint"
        return super()._revenues(name, r, missing=missing)

    def _mapped(self, r: Tensor) -> Tensor:
        """h(r) for predictions."""
        return on_grid(self.revenue_map(coarse(self.r_standardizer(r))))

    @property
    def costs_have_units(self) -> bool:  # type: ignore[override]
        """Whether there is a cost in the units of each revenue."""
        return isinstance(self.revenue_map, Identity)

    def _cost_units(self) -> tuple[Tensor, Tensor]:
        if self.costs_have_units:
            return self.r_standardizer.loc, self.r_standardizer.scale
        return super()._cost_units()

    def _encode(self, x: Tensor, noise: Tensor, *, independent: bool = False) -> Encoded:
        encoded = super()._encode(x, noise, independent=independent)
        if self.objective != "joint":
            return encoded
        # p(z|x) is in proportion to p(z) p(x|z); the draws came from q(z|x).
        z, covariates, rest = encoded.z, encoded.covariates, encoded.noise
        log_w = self.z_prior().log_prob(z) - self.z_guide(covariates).log_prob(z)  # type: ignore[misc]
        filled, log_x = complete(self.x_decoder(z), covariates, rest[..., : self.x_dim])
        log_weights = torch.log_softmax((log_w + log_x).double(), 0)
        incomplete = covariates.isnan().any(-1)
        return encoded._replace(
            covariates=filled,
            log_weights=log_weights,
            noise=rest[..., self.x_dim :],
            incomplete=incomplete,
        )

    def _event(self, encoded: Encoded, r: Tensor) -> tuple[OrderEvent, Encoded]:
        missing = r.isnan().any(-1)
        if encoded.incomplete is not None:
            missing = missing | encoded.incomplete
        mapped = self._mapped(r.nan_to_num())
        if missing.any():
            sites, log_weights = completed_revenues(self, encoded, r)
            # Rows without gaps keep their bits.
            rows = missing.reshape(-1, *(1,) * len(self.cost_shape))
            mapped = torch.where(rows, self._mapped(sites["r"]), mapped)
            log_weights = torch.where(missing, log_weights, encoded.log_weights)  # type: ignore[arg-type]
            encoded = encoded._replace(log_weights=log_weights, sites=sites)
        cost = self._cost(encoded.z, encoded.covariates)
        return OrderEvent(cost, mapped), encoded

    def _other_sites(self, encoded: Encoded, r: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        return w_given_revenues(self, encoded, r) if self.objective == "joint" else {}
