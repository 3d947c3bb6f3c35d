"""The generative cost model (paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import KnownMoments
from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.validation import seed_of
from pyro_gcm.distributions import CostUnits
from pyro_gcm.distributions.products import coarse
from pyro_gcm.inference.reading import Plan, in_units
from pyro_gcm.models.base import once
from pyro_gcm.models.build import (
    GuideName,
    PriorName,
    ResponseName,
    cost_shape_of,
    revenue_map_part,
    x_decoder_part,
)
from pyro_gcm.models.surfaces import Monotone
from pyro_gcm.nets import Conditional, StandardNormal
from pyro_gcm.nets.concave import ConcaveMap
from pyro_gcm.nets.networks import joined, widths_of
from pyro_gcm.responses import AxisResponse, Response

JOINT_PARTS = ("x_decoder.", "r_decoder.", "w_guide.")


@recorded("models.GCM")
class GCM(Monotone):
    """Strictly monotone p(y | x, r): y is the event that a latent cost stays below the revenue.

    Generative story, every name a Pyro site::

        z ~ p(z) or p(z|x)      # what the row is like
        x ~ p(x|z)              # covariates (with p(z|x) they are an input)
        w ~ N(0, I)             # other influences on r
        r ~ p(r|w, x)           # revenues, in which y is to increase
        c ~ p(c|z)              # costs, independent of r given x
        y = 1 if c < r in the product order, else 0

    The sites x, r and y are in the units of the data. So is c where there is one cost for each
    revenue; with a revenue map, or several alternatives, it is in the units of the map. `model` is
    the explicit program; train `inference.conditional(model)`, as `fit` does, or the whole of it
    with objective "joint".

    `predict` and `surface` increase in r, across calls and batch sizes: see
    `prediction.base_samples`. After joint training draws of z are weighted by p(z) p(x|z) / q(z|x).

    `cost(x)` is in the units of the revenues if there is one cost for each: then `cdf(r)` is the
    prediction of a binary response. Behind a revenue map it is in the map's units.

    :param x_dim: number of covariates.
    :param r_dim: number of revenues m, all increasing; 0 for a response with an axis of its own,
        such as "survival", of which nothing else sets the order.
    :param response: "binary", "continuous", "quantile", "survival", "ordinal", "distribution",
        "count", "classes" or a `responses.Response`, such as `responses.Survival(knots=4)`.
    :param prior: "conditional" learns p(z|x), a diagonal normal; "laplace", "mixture" (Gaussian,
        with weights that depend on x), "flow" (a spline flow) and "categorical" (z one of z_dim
        classes, summed out exactly) are other p(z|x); "standard" is N(0, I); or a module that
        takes standardised x [B, x_dim] to a distribution of z.
    :param guide: "prior" (z drawn from p(z|x)), "amortised" (q(z|x)), "posterior" (q(z|x, r, y)),
        the last two also with the endings "_full" (full covariance) and "_flow"; or a module that
        takes (x, r, y), standardised, to a distribution of z. By default "prior", and "amortised"
        with prior "standard". A guide with a name corrects the prior, where it starts.
    :param z_dim: dimension D of z.
    :param hidden: width of the two tanh layers of every network, or widths of any number of layers.
    :param alternatives: number G of alternatives; y = 1 if the costs of at least one stay below its
        revenues. One, the default, is the paper's model, which cannot express that one revenue
        makes up for another; more can.
    :param costs: number K of costs an alternative has; by default one for each revenue.
    :param cost_family: "normal", "logistic", "laplace", a registered class, or a module that takes
        z [..., D] to independent costs.
    :param revenue_map: "identity", "positive_linear", "piecewise_linear" (splines, for long tails
        and steps), "probit", "sigmoid" (bounded; paper, appendix C), an increasing torch
        `Transform`, or an increasing module from standardised revenues [..., m] to [..., (G,) K];
        one with a method `learn` is shown those of the training rows first. By default the identity
        for one alternative with a cost for each revenue (for quantile levels the probit), else
        positive linear.
    :param p0: probability that an alternative costs infinitely much, so that Pr(y = 1) stays below
        1 - p0 (paper, appendix C): None for never, "constant", "conditional" (a function of x), or
        a module that takes standardised x to its logits [..., (G)].
    :param concave: indices of revenues with diminishing returns, from 0 on: Pr(y = 1) is concave in
        each of them, as well as increasing. Costs are then those of `cost_family` from a lowest
        value on (half-normal, half-logistic, exponential for "laplace"), and a revenue enters one
        cost of an alternative, linearly.
    :param x_decoder: module that takes z [..., D] to p(x|z), standardised; with prior "standard".
    :param r_decoder: module that takes (w, x) [..., m + x_dim] to p(r|w, x), standardised.
    :param num_samples: draws of z behind a prediction; a power of two is best.
    :param seed: of the initial weights and of the prediction noise.
    :param name: prefix of the parameters in Pyro's store; unique by default.
    :raises ValueError: for sizes below 1, unknown names, or parts that do not fit together.
    """

    objectives = {
        "conditional": Plan(hidden=("w",), untrained=JOINT_PARTS),
        "joint": Plan(given=()),
    }

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        response: ResponseName | Response = "binary",
        prior: PriorName | nn.Module = "conditional",
        guide: GuideName | nn.Module | None = None,
        z_dim: int = 4,
        hidden: int | Sequence[int] = 16,
        alternatives: int = 1,
        costs: int | None = None,
        cost_family: str | type | nn.Module = "normal",
        revenue_map: Any = None,
        p0: str | nn.Module | None = None,
        concave: Sequence[int] = (),
        x_decoder: nn.Module | None = None,
        r_decoder: nn.Module | None = None,
        num_samples: int = 128,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(x_dim, r_dim, z_dim, name)
        self._set_concave(concave)
        shape = cost_shape_of(alternatives, max(1, self.r_dim) if costs is None else costs)
        hidden, seed = widths_of(hidden), seed_of(seed)
        with Randomness(seed).in_use():
            self._add_costs(shape, hidden, response, prior, guide, cost_family, p0)
            self._add_revenues(hidden, revenue_map, x_decoder, r_decoder, seed, num_samples)

    def _add_revenues(
        self,
        hidden: Any,
        revenue_map: Any,
        x_decoder: nn.Module | None,
        r_decoder: nn.Module | None,
        seed: int,
        num_samples: int,
    ) -> None:
        """Make the map of r, what draws x and r, and the noise of predictions.

        :param seed: of a map of members, and of that noise.
        """
        self.response.check_parts(revenue_map, self.infinite_net)
        make_map, map_shape = partial(self._make_map, revenue_map, seed), self.map_shape()
        if self.concave:
            rest, dims = self.r_dim - len(self.concave), len(self.cost_shape)
            others = self.response.revenue_maps(make_map, rest, map_shape) if rest else None
            concave = ConcaveMap(self.concave, self.r_dim, map_shape, others, dims)
            self.revenue_map: nn.Module = concave
        else:
            self.revenue_map = self.response.revenue_maps(make_map, self.r_dim, map_shape)
        make: Any = partial(
            Conditional, dist.Normal, self.r_dim + self.out_dim, (self.r_dim,), hidden
        )
        if not self.r_dim:  # there is nothing to draw
            make, r_decoder = partial(StandardNormal, 0), None
        self.w_prior = StandardNormal(self.r_dim)
        self.r_decoder: Any = make() if r_decoder is None else r_decoder
        self.x_decoder: Any = x_decoder_part(self, x_decoder, self.z_dim, hidden)
        self.w_guide: Any = None if self.reads_x else make()
        plain = isinstance(self.revenue_map, nn.Identity)
        if plain and not isinstance(self.response, AxisResponse):
            self.units_of_costs = "data"
        drawn = {} if self.reads_x else {"w": self.r_dim}
        self._add_units(num_samples, {"z": self.z_dim, **drawn}, seed)

    def _make_map(self, given: Any, seed: int, r_dim: int, shape: tuple[int, ...]) -> nn.Module:
        """The increasing map of so many revenues that is named, or the default one."""
        levels = self.response.r_dist() is not None
        if given is None and shape == (r_dim,):
            # With the identity of levels and a Gaussian cost mu_y would be linear in the level.
            given = "probit" if levels else "identity"
        given = "positive_linear" if given is None else given
        return revenue_map_part(given, r_dim, shape, levels=levels)

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        """The lines of the paper's figure; x and r are in data units, and so is x that is drawn."""
        z = sample("z", lambda: self.z_dist(x))
        x = sample("x", lambda: self.x_dist(z, x), obs=x)
        w = sample("w", self.w_dist)
        r = sample("r", lambda: self.r_dist(w, x), obs=r)
        c = sample("c", lambda: self.c_dist(z, x))
        return sample("y", lambda: self.y_dist(c, x, r), obs=y)

    def guide_story(self, sample: Any, x: Tensor, r: Tensor, y: Tensor | None) -> None:
        """z ~ q(z|x, r, y), and for the whole program w ~ q(w|x, r)."""
        super().guide_story(sample, x, r, y)
        if not self.reads_x:
            sample("w", lambda: self.w_guide_dist(self.x_standardizer(x), self.r_standardizer(r)))

    @property
    @once
    def prediction_plan(self) -> Plan:
        """z from p(z|x), or from q(z|x) with prior N(0, I); weighed after objective "joint"."""
        plan = self.plan(self.objective)
        if "r" not in plan.given:  # it may not weigh the draws, or predictions could fall in it
            plan = replace(plan, informed=("w", "r"))
        if self.reads_x:
            return plan
        units = self.x_standardizer, self.r_standardizer
        proposals: Any = {
            "z": lambda read: self.z_guide_dist(read.x, None, None),
            "w": lambda read: self.w_guide_dist(units[0](read.x), units[1](read.r)),
        }
        # Without weights under the literal loss of the paper.
        unweighted = () if self.objective == "joint" else ("z", "w")
        return replace(plan, proposals=proposals, unweighted=unweighted)

    # The factors of the story, besides z and c

    def x_dist(self, z: Tensor, x: Tensor | None) -> Any:
        """p(x|z) in data units; with a prior p(z|x), x [B, x_dim] itself."""
        if self.reads_x:
            return dist.Delta(x, event_dim=1).mask(False)
        return in_units(self.x_decoder(z), self.x_standardizer)

    def w_dist(self) -> Any:
        """N(0, I)."""
        return self.w_prior()

    def w_guide_dist(self, covariates: Tensor, r: Tensor) -> Any:
        """q(w | x, r) for standardised x and r."""
        return self.w_guide(joined(covariates, r))

    def r_dist(self, w: Tensor, x: Tensor) -> Any:
        """p(r|w, x) in data units, or the p(r) of the response."""
        fixed = self.response.r_dist()
        if fixed is not None:
            return fixed
        covariates = self._read_covariates(x)
        return in_units(self.r_decoder(joined(w, covariates)), self.r_standardizer)

    def y_dist(self, cost: Any, x: Tensor, r: Tensor) -> Any:
        """p(y | z, x, r): what the response makes of the order event between cost and revenue.

        :param cost: the costs as the story's site gave them, or their distribution.
        :param x: [B, x_dim] in data units; `r`: [B, r_dim].
        """
        covariates = self._read_covariates(x)
        return self.outcome_dist(cost, self.mapped(r, covariates), covariates, r)

    def learn_units(self, x: Tensor, r: Tensor, y: Tensor, moments: KnownMoments = None) -> None:
        """Learn the units of the columns, and the revenue map if it has a method `learn`."""
        super().learn_units(x, r, y, moments)
        learn = getattr(self.revenue_map, "learn", None)
        if isinstance(self.revenue_map, ConcaveMap):
            zero = torch.zeros(1, self.r_dim, dtype=r.dtype, device=self.device)
            self.revenue_map.learn_zero(self.r_standardizer(zero)[0])
        if callable(learn):
            learn(self.r_standardizer(r.to(self.device)))

    def cost_units(self, r: Tensor) -> CostUnits | None:
        """The units of site c at revenues [B, r_dim]; None where they are those of the story.

        A guide of your own says `pyro.sample("c", model.cost_units(r).of(p))`, with p in the units
        of `c_dist`.
        """
        if not self.costs_have_units:
            return None
        return CostUnits(self.r_standardizer, r, self.mapped(r))

    # Predictions

    def response_model(self, name: str | int) -> Any:
        """This model with one of `responses.Several` responses, or another class, to predict.

        It shares all weights with this one, and predicts; it is neither trained nor saved.

        :param name: of the response, or the class of `responses.Classes`.
        :raises ValueError: for another name, and for a model with one response.
        """
        return self.response.model_of(self, name)

    def mapped(self, r: Tensor, covariates: Tensor | None = None) -> Tensor:
        """h(r), of given draws, or of all members without them."""
        standard = self.r_standardizer(r)
        if torch.is_grad_enabled():
            return self.revenue_map(standard)
        # In predictions. Functions of a map in float64 err by more than a step of its inputs.
        return self.revenue_map(coarse(standard))
