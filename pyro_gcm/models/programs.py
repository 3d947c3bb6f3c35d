"""Functions of a model: its story as programs of Pyro, and the factors that the models share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyro
import torch
from pyro.infer.util import is_validation_enabled
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.validation import checked_data, positive_int
from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.event_sides import sides
from pyro_gcm.inference.guards import SiteGuard
from pyro_gcm.inference.programs import Guided, Programmed, SharedSite
from pyro_gcm.inference.reading import Plan, of, reader
from pyro_gcm.inference.views import announce, is_announcing

#: A column that may be left out.
Given = Tensor | None
#: Root mean square of a column above which a model that has not learned its units warns.
_LARGE = 4.0


# Programs


def model(self: Any, x: Given = None, r: Given = None, y: Given = None, *, size: int = 1) -> Tensor:
    """The story as an explicit Pyro program; what is not given is drawn.

    :param x: [B, x_dim] in data units; needed with a conditional prior. `r`: [B, r_dim].
    :param y: [B].
    :param size: number of rows when neither x nor r is given.
    :returns: y, [B].
    """
    x, r, y, rows = _inputs(self, x, r, y, size)
    plan = Plan(given=(), averages=self.objective_records[self.objective].averages)
    story = Programmed(self, plan, self.plan("conditional"), x, r)
    story.shared = self.shared(story.share)
    with pyro.plate("data", rows, dim=-1), SiteGuard():
        drawn: Tensor = story.tell(x, r, y)
    return drawn


def guide(
    self: Any, x: Given = None, r: Given = None, y: Given = None, *, size: int = 1
) -> Tensor | None:
    """Guide of `inference.conditional(model)`: the latent sites from `guide_story`.

    A z with a finite support is summed out, so that it has no site here.

    :returns: the value of the first site, or None.
    """
    plan = self._once("guide", lambda: replace(self.plan("conditional"), left=("c",)))
    return guide_of(self, plan, x, r, y)


def guide_of(self: Any, plan: Plan, x: Given, r: Given = None, y: Given = None) -> Tensor | None:
    """The guide for a plan; where it averages, a finite z is summed over, q(z) = p(z)."""
    if x is None:
        raise ValueError("x must be given: the guide reads it")
    x, r, y, rows = _inputs(self, x, r, y, 1)
    story = Guided(self, plan, x, r)
    self.guide_shared(story.share_guided)
    story.shared = self.shared(story.share)
    with pyro.plate("data", rows, dim=-1):
        return story.run(x, r, y, self.latents(plan))


def _inputs(model: Any, x: Any, r: Any, y: Any, size: int) -> tuple[Any, Any, Any, int]:
    """Inputs, their values checked while Pyro's validation is on, and the number of rows."""
    if is_validation_enabled():
        data = checked_data(model, x, r, y, device=model.device)
        # The checks see copies without a gradient; programs may be differentiated by x and r.
        x, r = (given_or(v, data.get(n)) for n, v in (("x", x), ("r", r)))
        y = data.get("y")
    if y is not None and not model.is_trained and is_announcing() and torch.is_grad_enabled():
        _note_training(model, {"x": x, "r": r, "y": y})
    model.shared_sites()  # whose guide has parameters
    announce(model.name, model)
    given = r if x is None else x
    return x, r, y, positive_int("size", size) if given is None else len(given)


def _note_training(model: Any, data: dict[str, Tensor | None]) -> None:
    """A program that runs with y and with gradients is being trained, by SVI say."""
    model.is_trained = True
    for name, values in data.items():
        if values is not None and (values.double().square().nanmean(0).sqrt() > _LARGE).any():
            model.warn_once(
                f"{model.name} is trained on values of {name} that are not standardised, and has "
                "not learned their units: call model.learn_units(x, r, y) before pyro.infer.SVI"
            )


def given_or(given: Any, checked: Any) -> Any:
    """Return the checked tensor, or the given one if it has a gradient."""
    if isinstance(given, Tensor) and given.requires_grad and checked is not None:
        return given.to(checked.device)
    return checked


def shared_sites(model: Any) -> dict[str, SharedSite]:
    """The sites that all rows share, whose guide gets its parameters."""
    sites = {}

    def line(name: str, p: Any) -> Tensor:
        p = of(p)
        sites[name] = SharedSite(name, p.event_shape, p.support)
        sites[name].add_parameters(model.shared_guide, model.base_samples.samples)
        return p.sample()

    with torch.no_grad(), Randomness(0, model.device).in_use():
        model.shared(line)
    return sites


# The factors that the models share


def z_dist(self: Any, x: Tensor | None) -> Any:
    """p(z|x) for x [B, x_dim] in data units, or p(z)."""
    if not self.reads_x:
        return self.z_prior()
    if x is None:
        raise ValueError("x must be given: the prior p(z|x) reads it")
    return self.z_prior(self.x_standardizer(x))


def z_guide_dist(self: Any, x: Tensor | None, r: Tensor | None, y: Tensor | None) -> Any:
    """q(z|x, r, y), or p(z|x) where the guide is the prior; arguments in data units."""
    if x is None:
        raise ValueError("x must be given: the guide reads it")
    if self.z_guide is None:
        return self.z_dist(x)
    x = self.x_standardizer(x)
    r = None if r is None else self.r_standardizer(r)
    return self.z_guide(x, r, None if y is None else self.response.standardized(y).to(x.dtype))


def covariates(self: Any, z: Tensor, x: Tensor) -> Tensor:
    """Return x [B, x_dim] as the factors of the model read it after z: standardised."""
    standard: Tensor = self.x_standardizer(x)
    return standard


def read_covariates(self: Any, x: Tensor, z: Tensor | None = None) -> Tensor:
    """`covariates` of x in data units, computed once for all lines of a story."""
    story = reader()
    found: Tensor = self.covariates(z, x) if story is None else story.covariates(z, x)
    return found


def c_dist(self: Any, z: Tensor, x: Tensor) -> Any:
    """p(c|z), or p(c|z, x) where a cost may be infinite or z is a member; x in data units."""
    cost = self.cost_net(z)
    if self.infinite_net is None:
        return cost
    return InfiniteCost(cost, self.infinite_net(self.read_covariates(x, z)))


def outcome_dist(self: Any, cost: Any, revenue: Any, covariates: Tensor, r: Tensor) -> Any:
    """p(y | z, x, r): what the response makes of the order event between cost and revenue.

    :param cost: the costs as the story's site gave them, or their distribution.
    :param revenue: what they are compared with; `r`: the revenues in data units.
    """
    p_c, c = sides(cost)
    event = OrderEvent(p_c, revenue, validate_args=False)
    p_y = self.response.distribution(event, covariates, r)
    return p_y if c is None else p_y.given_cost(c)
