"""Tests of the parts of a model: the promises of a model with the part, and those of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.distributions import cost_family
from pyro_gcm.distributions.families import base_distribution, tail_log_probs
from pyro_gcm.distributions.numerics import log1mexp
from pyro_gcm.testing.checks import alike, check, same, skip
from pyro_gcm.testing.stories import StoryTests

#: Draws of a distribution.
DRAWS = 4000


class PartTests(StoryTests):
    """Tests of a `GCM` with a part, which `make` returns as the constructor takes it."""

    #: The argument of `GCM` that the part is, and the other ones.
    argument = ""
    options: Mapping[str, Any] = {"z_dim": 2, "hidden": 4, "num_samples": 32}

    def model(self) -> Any:
        """A `GCM` with the part."""
        return GCM(self.x_dim, self.r_dim, **{self.argument: self.make(), **self.options})


@torch.no_grad()
def check_density(what: str, q: Any) -> None:
    """Check that a distribution [B] of event shape [D] or () has the density of its draws.

    Its integral and a mean of each coordinate, by its draws and by its density at draws of another
    distribution with heavier tails.
    """
    if q.has_enumerate_support:
        total = q.log_prob(q.enumerate_support()).exp().sum(0)
        return same(f"the sum of the probabilities of {what}", total, torch.ones_like(total), 1e-6)
    z = q.sample((DRAWS,)).double()
    middle, scale = z.median(0).values, 1.5 * z.std(0) + 1e-6
    wide: Any = dist.StudentT(4.0, middle, scale).to_event(len(q.event_shape))
    other = wide.sample((DRAWS,))
    inside = q.support.check(other).reshape(*z.shape[:2], *(1,) * len(q.event_shape))
    log_p = q.log_prob(torch.where(inside, other, z)) - wide.log_prob(other)
    weights = log_p.exp().reshape(*z.shape[:2], -1) * inside.reshape(*z.shape[:2], -1)
    for how, of in (("integral", torch.ones_like), ("mean", torch.tanh)):
        mine, theirs = (of((v - middle) / scale).reshape(*z.shape[:2], -1) for v in (z, other))
        alike(f"the {how} of the density of {what}, beside its draws,", weights * theirs, mine)


class PriorTests(PartTests):
    """Tests of a prior p(z|x): `make` returns a name, or a module of x [..., 3] to z [2]."""

    argument = "prior"

    def test_its_density_is_that_of_its_draws(self) -> None:
        """And its integral is 1, of the prior and of the guide."""
        model, rows = self.prepared()
        x, r, y = (column[:3] for column in rows)
        check_density("the prior", model.z_dist(x).expand((3,)))
        check_density("the guide", model.z_guide_dist(x, r, y).expand((3,)))


class GuideTests(PriorTests):
    """Tests of a guide: `make` returns a name, or a module of (x, r, y) to a distribution of z."""

    argument = "guide"


class CostFamilyTests(PartTests):
    """Tests of costs: `make` returns a name, a registered class, or a module of z to costs [2]."""

    argument = "cost_family"

    @torch.no_grad()
    def _costs(self) -> Any:
        return base_distribution(self.prepared()[0].cost_net(torch.randn(3, 2).double()))

    def test_its_tails_are_inverted_by_its_quantiles(self) -> None:
        """To a millionth of a probability's logarithm, from 1e-200 on both sides."""
        costs = self._costs()
        log_p = torch.tensor([-460.0, -50.0, -7.0, -1.5, -0.7], dtype=torch.float64)
        log_p = log_p.reshape(-1, 1, 1).expand(-1, *costs.batch_shape)
        for side, name in enumerate(("log_cdf", "log_survival")):
            pair = (log_p, log1mexp(log_p)) if not side else (log1mexp(log_p), log_p)
            found = tail_log_probs(costs, cost_family(type(costs)).quantile(costs, *pair))[side]
            same(f"{name} at its own quantile", found, log_p, 1e-6)

    def test_its_tails_are_those_of_its_density(self) -> None:
        """Slopes are the density, both tails add up to 1, and none turns between two floats."""
        costs = self._costs()
        value = costs.sample((1000,)).requires_grad_()
        below, above = tail_log_probs(costs, value)
        (slope,) = torch.autograd.grad(below.exp().sum(), value)
        same("the slope of log_cdf", slope, costs.log_prob(value.detach()).exp(), 1e-5)
        same("the sum of both tails", below.exp() + above.exp(), torch.ones_like(below), 1e-9)
        for at in (value.detach(), 30.0 * value.detach(), torch.full_like(value, torch.inf)):
            higher = torch.nextafter(at, torch.full_like(at, torch.inf))
            low, high = tail_log_probs(costs, at), tail_log_probs(costs, higher)
            check(high[0] >= (1.0 + 1e-14) * low[0], "log_cdf falls from one float to the next")
            check(
                (1.0 + 1e-14) * high[1] <= low[1], "log_survival rises from one float to the next"
            )


class RevenueMapTests(PartTests):
    """Tests of a map h: `make` returns a name, or an increasing module of r [..., 2] to costs [2].

    `options` with "alternatives": G and "costs": K are those of a map to [G, K].
    """

    argument = "revenue_map"

    @torch.no_grad()
    def test_it_rises_in_every_revenue(self) -> None:
        """By steps of one ulp and of any other size, whatever its weights are."""
        for dtype in (torch.float32, torch.float64):
            model, (_, r, _) = self.prepared(dtype, 2000)
            for parameter in model.revenue_map.parameters():
                parameter.normal_()
            highest = torch.inf if model.response.r_dist() is None else 1.0
            column = torch.randint(r.shape[1], (len(r), 1)) == torch.arange(r.shape[1])
            for step in (0.0, 1e-6, 0.01, 1e4):
                up = torch.where(column, torch.nextafter(r, r + 1.0) + step, r).clamp(max=highest)
                fell = (model.revenue_map(up) < model.revenue_map(r)).flatten(1).any(1)
                check(~fell, f"the map falls in {dtype}, such as from {r[fell][:1].tolist()}")


class ResponseTests(PartTests):
    """Tests of a response: `make` returns a name, or a new `responses.Response`."""

    argument = "response"

    @torch.no_grad()
    def _outcome(self) -> tuple[Any, Any, Tensor]:
        """p(y | z, x, r) of three rows, the distribution of their costs, and draws of y."""
        model, (x, r, _) = self.prepared()
        costs = model.c_dist(model.z_dist(x[:3]).sample(), x[:3])
        p_y = model.y_dist(costs, x[:3], r[:3])
        return p_y, costs, p_y.sample((DRAWS,))

    def test_costs_given_outcomes_are_the_costs(self) -> None:
        """Draws of y and then of c given y have the distribution of c."""
        p_y, costs, y = self._outcome()
        given, plain = p_y.cost_posterior(y).sample(), costs.sample((DRAWS,))
        alike("the mean of costs given draws of y, beside all costs,", given.tanh(), plain.tanh())

    def test_its_density_is_that_of_its_draws(self) -> None:
        """Of outcomes of one column; where they are finitely many, also given the costs."""
        p_y, costs, y = self._outcome()
        if y.shape[1:] != p_y.batch_shape:
            skip("an outcome has several columns")
        check_density("y", p_y)
        if p_y.has_enumerate_support:
            given = p_y.given_cost(costs.sample((DRAWS,))).log_prob(y[0]).exp()
            alike("the mean of p(y | c), beside p(y),", given, p_y.log_prob(y[:1]).exp())
