"""A story as a Pyro program and its guide: the plate of rows, and the sites that all rows share."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from pyro.infer.util import is_validation_enabled
from pyro.ops.provenance import detach_provenance
from pyro.poutine import runtime
from torch import Tensor, nn
from torch.distributions import biject_to

from pyro_gcm._utils.torch_state import Randomness, in_transform
from pyro_gcm._utils.validation import checked_data, positive_int
from pyro_gcm.distributions.base import Left
from pyro_gcm.inference.reading import Plan, Reader, StopReading, of
from pyro_gcm.inference.views import HideInputsMessenger, SiteGuard
from pyro_gcm.nets.networks import positive

#: A column that may be left out.
Given = Tensor | None
#: Root mean square of a column above which a model that has not learned its units warns.
_LARGE = 4.0
#: Spread of the guide of a site that all rows share, at the start.
_SCALE = 0.1
_Independent = type(constraints.independent(constraints.real, 0))


class Programmed(Reader):
    """Every line is a `pyro.sample`, for Pyro's handlers to make of it what they do.

    :param exact: plan whose sites have another distribution where x and r are inputs, which
        `inference.given_inputs` asks for.
    """

    def __init__(self, model: Any, plan: Plan, exact: Plan, x: Any, r: Any) -> None:
        super().__init__(model, plan, x, r)
        self.given_inputs = exact.exact

    def share(self, name: str, p: Any) -> Tensor:
        """A draw outside of the plate."""
        return pyro.sample(name, self.of_all_rows(name, p))

    def latent(self, name: str, p: Any) -> Tensor:
        """A draw; a finite site is summed out by the bounds that do so."""
        fn = of(p)
        infer: Any = {"enumerate": "parallel"} if fn.has_enumerate_support else {}
        if name in self.given_inputs:
            infer["given_inputs"] = lambda: self.given_inputs[name](self)
        return self.speak(pyro.sample, name, fn, infer=infer)

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """An observed site; an input is one whose density is masked out."""
        hides = [h for h in runtime._PYRO_STACK if isinstance(h, HideInputsMessenger)]
        if any(name in handler.inputs for handler in hides):  # no need of the networks behind it
            fn: Any = dist.Delta(value, event_dim=1).mask(False)
        else:
            fn = of(p)
        is_input = name in ("x", "r") and isinstance(fn, dist.MaskedDistribution)
        infer: Any = {"_deterministic": True} if is_input else {}
        return self.speak(pyro.sample, name, fn, obs=value, infer=infer)

    def leave(self, name: str, p: Any) -> Left:
        """A cost: its distribution beside its draw, or alone where a handler hands it back.

        The site is in the units of the data where there is a cost for each revenue.
        """
        left = super().leave(name, p)
        # That rounding moves no cost across r does not make c depend on it.
        units = self.model.cost_units(detach_provenance(self.values.get("r", self.r)))
        value = self.speak(pyro.sample, name, left.fn if units is None else units.of(left.fn))
        if isinstance(value, Left):
            return value
        return Left(name, left.fn, value if units is None else units.to_standard(value))

    def outcome(self, p: Any, obs: Any) -> Any:
        """The outcome."""
        fn = self.model.response.site_distribution(of(p), separate=self.plan.averages)
        return self.speak(pyro.sample, "y", fn, obs=obs)

    def deterministic(self, name: str, value: Any) -> Tensor:
        """A deterministic site."""
        found = super().deterministic(name, value)
        return self.speak(pyro.deterministic, name, found, event_dim=1)


class Guided(Reader):
    """A guide: the sites of the guide's story, then those that it leaves out from their own."""

    #: Latent sites of the story that have no value yet.
    open: set[str]

    def share_guided(self, name: str, q: Any) -> Tensor:
        """One line of the guide of the sites that all rows share."""
        value: Tensor = pyro.sample(name, of(q))
        self.known_shared[name] = value
        return value

    def guide(self, name: str, q: Any) -> Tensor:
        """A site of the guide."""
        self.values[name] = value = pyro.sample(name, of(q))
        return value

    def latent(self, name: str, p: Any) -> Any:
        """Return the guide's draw, or a draw from the story's distribution."""
        if name in self.values:
            return self.values[name]
        fn = self.distribution(name, p)
        finite = fn.has_enumerate_support
        if finite and not self.plan.averages:
            return fn.sample(() if fn.batch_shape else (len(self.x),))
        infer: Any = {"enumerate": "parallel"} if finite else {}
        value = self.speak(pyro.sample, name, fn, infer=infer)
        self.open.discard(name)
        if not self.open:
            self.values[name] = value
            raise StopReading
        return value

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """The value: the program scores it."""
        return value

    def outcome(self, p: Any, obs: Any) -> None:
        """Ignore the outcome: a guide has no site y."""


def model(self: Any, x: Given = None, r: Given = None, y: Given = None, *, size: int = 1) -> Tensor:
    """The story as an explicit Pyro program; what is not given is drawn.

    :param x: [B, x_dim] in data units; needed with a conditional prior. `r`: [B, r_dim].
    :param y: [B].
    :param size: number of rows when neither x nor r is given.
    :returns: y, [B].
    """
    x, r, y, rows = _inputs(self, x, r, y, size)
    plan = Plan(given=(), averages=self.objectives[self.objective].averages)
    story = Programmed(self, plan, self.plan("conditional"), x, r)
    story.shared = self.shared(story.share)
    with pyro.plate("data", rows, dim=-1), SiteGuard():
        drawn: Tensor = story.tell(x, r, y)
    return drawn


def guide(
    self: Any,
    x: Given = None,
    r: Given = None,
    y: Given = None,
    *,
    size: int = 1,
    observations: dict[str, Tensor] | None = None,
    plan: Plan | None = None,
) -> Tensor | None:
    """Guide of `inference.conditional(model)`: the latent sites from `guide_story`.

    A z with a finite support is summed out, so that it has no site here, unless each of its values
    is trained on a likelihood of its own.

    :param observations: y that a program has drawn, by the name of its site, in the place of the
        one given: the sleep phase of `pyro.infer.ReweightedWakeSleep`.
    :param plan: of another objective, as `training_pair` gives it.
    :returns: the value of the first site, or None.
    """
    if x is None:
        raise ValueError("x must be given: the guide reads it")
    plan = self.drawing(self.plan("conditional")) if plan is None else plan
    x, r, y, rows = _inputs(self, x, r, y, size)
    y = (observations or {}).get("y", y)  # [..., B]
    story = Guided(self, plan, x, r)
    story.read_shared()
    with pyro.plate("data", rows, dim=-1):
        self.guide_story(story.guided, x, r, y)
        story.open = set(self.latents(plan)) - set(story.values)
        with suppress(StopReading):
            if story.open:
                story.tell(x, r, y)
    return next(iter(story.values.values()), None)


def _inputs(model: Any, x: Any, r: Any, y: Any, size: int) -> tuple[Any, Any, Any, int]:
    """Inputs, their values checked while Pyro's validation is on, and the number of rows."""
    if is_validation_enabled():
        data = checked_data(model, x, r, y, device=model.device)
        # The checks see copies without a gradient; programs may be differentiated by x and r.
        x, r = (given_or(v, data.get(n)) for n, v in (("x", x), ("r", r)))
        y = data.get("y")
    trains = torch.is_grad_enabled() and not in_transform()
    if y is not None and not model.is_trained and trains:
        model.is_trained = True  # by SVI, say
        for name, values in (("x", x), ("r", r), ("y", y)):
            if values is not None and (values.double().square().nanmean(0).sqrt() > _LARGE).any():
                model.warn_once(
                    f"{model.name} is trained on values of {name} that are not standardised, and "
                    "has not learned their units: call model.learn_units(x, r, y) before "
                    "pyro.infer.SVI"
                )
    model.shared_sites()  # whose guide has parameters
    if trains:
        announce(model.name, model)
    given = r if x is None else x
    return x, r, y, positive_int("size", size) if given is None else len(given)


def given_or(given: Any, checked: Any) -> Any:
    """Return the checked tensor, or the given one if it has a gradient."""
    if isinstance(given, Tensor) and given.requires_grad and checked is not None:
        return given.to(checked.device)
    return checked


class SharedSite(NamedTuple):
    """A site that all rows share, in a model's `shared`, with the parameters of its guide.

    :param support: of its distribution.
    :param folded: dimensions of the batch that its line has, which are one event here.
    :param free_shape: of what is mapped to the support.
    """

    name: str
    event_shape: torch.Size
    support: Any
    folded: int
    free_shape: torch.Size

    @property
    def is_binary(self) -> bool:
        """Whether all of its values are 0 or 1."""
        support = self.support
        while isinstance(support, _Independent):
            support = support.base_constraint
        return isinstance(support, type(constraints.boolean))

    def guide(self, parameters: nn.ParameterDict) -> Any:
        """Independent normals, mapped to the support; independent probabilities of what is 1."""
        if self.support.is_discrete and not self.is_binary:
            raise ValueError(
                f"site '{self.name}', which all rows share, is discrete and not binary: override "
                "guide_shared, or give it the probabilities of its values as a site"
            )
        loc = parameters[f"{self.name}_loc"]
        if self.is_binary:
            return StraightThroughBernoulli(logits=loc).to_event(loc.dim())
        normal = dist.Normal(loc, positive(parameters[f"{self.name}_spread"], _SCALE))
        normal, transform = normal.to_event(loc.dim()), biject_to(self.support)
        plain = getattr(transform, "base_transform", transform)
        if isinstance(plain, dist.transforms.ComposeTransform) and not plain.parts:
            return normal  # on the whole line
        return dist.TransformedDistribution(normal, [transform])


def sites_of(model: Any) -> dict[str, SharedSite]:
    """The sites that all rows share, whose guide gets a location and a spread where it has none."""
    sites, known = {}, model.shared_guide

    def line(name: str, p: Any) -> Tensor:
        folded = len((p := of(p)).batch_shape)
        p = p.to_event(folded)
        shape, discrete = p.event_shape, p.support.is_discrete
        free = shape if discrete else biject_to(p.support).inverse_shape(shape)
        sites[name] = site = SharedSite(name, shape, p.support, folded, free)
        parts = ("loc", "spread") if not discrete else ("loc",) if site.is_binary else ()
        for key in (f"{name}_{part}" for part in parts):
            if key not in known:
                known[key] = nn.Parameter(model.base_samples.samples.new_zeros(free))
        return p.sample()

    with torch.no_grad(), Randomness(0, model.device).in_use():
        model.shared(line)
    return sites


class StraightThroughBernoulli(dist.Bernoulli):
    """Zeros and ones with the biased gradient of a relaxed draw (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws [*sample_shape, *batch_shape], of a relaxed Bernoulli at temperature 1 / 2."""
        u = torch.rand(self._extended_shape(sample_shape), device=self.logits.device)
        return self._hard(u.to(self.logits).clamp(1e-6, 1.0 - 1e-6))

    def icdf(self, u: Tensor) -> Tensor:
        """The draw that a uniform number stands for."""
        return self._hard(u)

    def _hard(self, u: Tensor) -> Tensor:
        soft = torch.sigmoid(2.0 * (self.logits + u.logit()))
        return (soft > 0.5).to(soft) + soft - soft.detach()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same with another batch shape."""
        return StraightThroughBernoulli(logits=self.logits.expand(batch_shape))


def announce(name: str, module: nn.Module) -> None:
    """Tell Pyro's store of the parameters, for `pyro.infer.SVI`.

    :raises RuntimeError: where the store has other tensors under these names, which would be
        trained in the place of the module's.
    """
    for key, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        known = pyro.param(f"{name}$$${key}", parameter)
        if detach_provenance(known) is not parameter:
            raise RuntimeError(
                f"name={name!r} is taken in Pyro's parameter store by other tensors, which would "
                "be trained in place of this model's: call pyro.clear_param_store(), or give the "
                "model another name (a handler that replaces parameters, such as poutine.lift, "
                "cannot reach those of a module: make them sites in `shared` instead)"
            )
