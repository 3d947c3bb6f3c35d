"""Views of an explicit program: costs integrated out or recovered, y given x and r, tempering."""

from __future__ import annotations

import math
from collections.abc import Collection
from traceback import walk_stack
from typing import Any

import pyro
import torch
from pyro.distributions import Independent, TorchDistribution
from pyro.distributions.util import scale_and_mask
from pyro.ops.provenance import get_provenance
from pyro.poutine import runtime
from pyro.poutine.condition_messenger import ConditionMessenger
from pyro.poutine.messenger import Messenger
from pyro.poutine.replay_messenger import ReplayMessenger
from pyro.poutine.scale_messenger import ScaleMessenger
from torch import Tensor

from pyro_gcm.distributions.base import Left
from pyro_gcm.distributions.costs import CostsInUnits, CostUnits
from pyro_gcm.inference.reading import Program

_CURE = (
    "Integrate the cost out with inference.collapse(model) (or inference.conditional), and make an "
    "autoguide of that program; or give the guide a site 'c' from the exact CostPosterior."
)


def collapse(
    model: Program, *, cost: str = "c", outcome: str = "y", kernel: str | None = None
) -> Program:
    """The program with its costs integrated out in closed form: what training runs.

    Site `cost` disappears: the program gets the distribution in the place of a value, which an
    `OrderEvent` takes for its cost. Any other use of it is an error that names the site.

    :param model: a program with a site `c ~ p(c|z)` and a site `y` whose distribution takes c: an
        `OrderEvent(c, r)`, a distribution made of one, or any with an attribute `cost` and a method
        `marginalize(cost_distribution)`. A model object stands for its `.model`.
    :param kernel: site of a Gaussian revenue with independent coordinates that is integrated out
        too (E_k in the paper, section 3.4). It must enter y alone and as it is.
    :raises RuntimeError: when run, if the sites are not there or do not belong together.
    :raises ValueError: when run, if there is no closed form for this kernel.

    >>> import pyro, pyro.distributions as dist, torch
    >>> from pyro_gcm.distributions import OrderEvent
    >>> def program(r, y=None):
    ...     c = pyro.sample("c", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    ...     return pyro.sample("y", OrderEvent(c, r), obs=y)
    >>> trace = pyro.poutine.trace(collapse(program)).get_trace(torch.zeros(2), torch.tensor(1.0))
    >>> trace.log_prob_sum().exp().item()  # Pr(c < 0) of two standard normal costs
    0.25
    """
    return _wrap(CollapseMessenger(cost, outcome, kernel), model)


def uncollapse(
    model: Program, *, cost: str = "c", outcome: str = "y", kernel: str | None = None
) -> Program:
    """The program with the costs drawn after y, exactly from p(c | z, r, y).

    The joint distribution is that of the explicit program, as p(y | z, r) p(c | z, r, y): what
    `Predictive` has to run to see costs that agree with an observed y. With `kernel`, as in
    `collapse`, that site is drawn after y as well, before the costs.
    """
    return _wrap(UncollapseMessenger(cost, outcome, kernel), model)


def given_inputs(model: Program, inputs: Collection[str] = ("x", "r")) -> Program:
    """The program with x and r as inputs: sites x, r and w are kept from every handler outside.

    A latent variable that r depends on is drawn from its distribution given x and r, where its site
    says so: `infer={"given_inputs": function -> distribution}`, as k of `IGCM` does.

    :param inputs: those of x and r that are; w is hidden beside r.
    :raises RuntimeError: when run without them.
    """
    return _wrap(HideInputsMessenger(inputs), model)


def conditional(model: Program, *, kernel: str | None = None) -> Program:
    """p(y | x, r) as a program of its own: x and r inputs, w hidden, c collapsed.

    What `fit` trains by default, and what to hand to `pyro.infer.SVI` or any Pyro ELBO together
    with the model's guide::

        svi = SVI(conditional(gcm.model), gcm.guide, Adam({"lr": 0.01}), Trace_ELBO())

    :raises RuntimeError: when run without x or r.
    """
    return collapse(given_inputs(model), kernel=kernel)


def temper(program: Program, scale: float, *, sites: Collection[str] = ("z",)) -> Program:
    """`pyro.poutine.scale` for some sites only: their log-densities count `scale` times.

    Applied to a program and its guide it weighs the prior against the likelihood, as the factor
    beta of a beta-VAE does: below 1 the guide may leave the prior at a lower price. The value is
    then no longer a bound on an evidence. Where the guide is the prior the two cancel at any scale.

    :param scale: factor above 0.
    :param sites: names of the sites.
    """
    return _wrap(ScaleSites(scale, sites), program)


def _wrap(messenger: Messenger, model: Program) -> Program:
    return messenger(getattr(model, "model", model))


class CollapseMessenger(Messenger):
    """Handler behind `collapse`: a site's distribution in the place of its value."""

    def __init__(self, cost: str, outcome: str, kernel: str | None) -> None:
        super().__init__()
        self.cost, self.outcome, self.kernel = cost, outcome, kernel
        self.names = [cost] if kernel is None else [cost, kernel]

    def __enter__(self) -> Any:
        self._left: dict[str, Left] = {}
        self._units: CostUnits | None = None
        return super().__enter__()

    def _pyro_sample(self, msg: Any) -> None:
        name = msg["name"]
        if name in self.names:
            around = runtime._PYRO_STACK if type(self) is CollapseMessenger else ()
            known = any(isinstance(h, ConditionMessenger) and name in h.data for h in around)
            if msg["is_observed"] or known:
                raise RuntimeError(
                    f"site '{name}' is observed and cannot be integrated out: run the "
                    "explicit program, without collapse"
                )
            fn = msg["fn"]
            if isinstance(fn, CostsInUnits):
                fn, self._units = fn.standard, fn.units
            self._left[name] = msg["value"] = Left(name, fn)
            msg["done"], msg["stop"] = True, True
            msg["infer"] = {**msg["infer"], "collapsed": True}
        elif name == self.outcome:
            msg["fn"] = self._marginal(msg["fn"])

    def _marginal(self, fn: Any) -> TorchDistribution:
        for name in self.names:
            if name not in self._left:
                raise RuntimeError(
                    f"collapse found no site '{name}' before site '{self.outcome}'; "
                    "name the sites with collapse(model, cost=..., outcome=...)"
                )
        cost = self._left[self.cost]
        if getattr(fn, "cost", None) is cost and hasattr(fn, "marginalize"):
            fn, cost.is_used = fn.marginalize(cost.fn), True
        return fn


class UncollapseMessenger(CollapseMessenger):
    """Handler behind `uncollapse`."""

    _recovering = False

    def _pyro_sample(self, msg: Any) -> None:
        if not self._recovering:
            super()._pyro_sample(msg)

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["name"] == self.outcome:
            self._recovering = True
            try:
                if not self._left[self.cost].is_used:
                    raise RuntimeError(
                        f"site '{self.outcome}' must take the value of site '{self.cost}' as its "
                        f"cost, in an OrderEvent, got {type(msg['fn']).__name__}"
                    )
                marginal, y = msg["fn"], msg["value"]
                if self.kernel is not None:
                    k = pyro.sample(self.kernel, marginal.revenue_posterior(y))
                    marginal = marginal.given_revenue(k)
                cost = marginal.cost_posterior(y)
                cost = cost if self._units is None else self._units.of(cost)
                pyro.sample(self.cost, _GuardedSite(cost, 0))
            finally:
                self._recovering = False
        elif self._recovering and isinstance(fn := msg["fn"], _GuardedSite):
            fn.drawn_by, fn.site_mask = "guide" if _has_gradient(msg) else None, msg["mask"]


class HideInputsMessenger(Messenger):
    """Keeps inputs from every handler outside."""

    def __init__(self, inputs: Collection[str]) -> None:
        super().__init__()
        self.inputs = inputs

    def _pyro_sample(self, msg: Any) -> None:
        name, hides_r = msg["name"], "r" in self.inputs
        if name in self.inputs and not msg["is_observed"]:
            raise RuntimeError(f"conditional: '{name}', an input of p(y | x, r), must be given")
        if name in self.inputs or (name == "w" and hides_r):
            msg["stop"] = True
        elif hides_r and "given_inputs" in msg["infer"]:
            msg["fn"] = msg["infer"]["given_inputs"]().expand(msg["fn"].batch_shape)


class ScaleSites(ScaleMessenger):
    """`pyro.poutine.scale` for some sites."""

    def __init__(self, scale: float, sites: Collection[str]) -> None:
        super().__init__(scale)
        self.sites = frozenset(sites)

    def _process_message(self, msg: Any) -> None:
        if msg["name"] in self.sites:
            super()._process_message(msg)


class SiteGuard(Messenger):
    """Raises an error where a program would be trained on another bound than it looks.

    A cost drawn from p(c|z), or by an autoguide, contradicts an observed y most of the time, so
    that the density of y is 0. Drawing is harmless; asking for that density raises. A finite site
    that the guide leaves out is to be summed out.
    """

    _infer: Any = None
    #: Who has drawn site c: "prior", "guide", along whose draws a gradient is taken, or None.
    _drawn_by: str | None = None

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] == "c":
            self._infer = msg["infer"]
        elif msg["name"] == "y" and (
            self._drawn_by == "guide" or (self._drawn_by and msg["is_observed"])
        ):
            msg["fn"] = _GuardedSite(msg["fn"], 0)

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["infer"].get("enumerate") and not msg["is_observed"]:
            _check_summed_out(msg)
        if msg["name"] == "c":
            if "prior" in msg["infer"] and not msg["is_observed"]:  # of an AutoMessenger
                raise RuntimeError(
                    f"the guide, such as AutoNormalMessenger, draws site 'c', without y. {_CURE}"
                )
            # A guide's replay and `collapse` each bring an `infer` of their own.
            from_prior = not msg["is_observed"] and msg["infer"] is self._infer
            self._drawn_by = "prior" if from_prior else "guide" if _has_gradient(msg) else None
        elif isinstance(msg["fn"], _GuardedSite):
            msg["fn"].drawn_by, msg["fn"].site_mask = self._drawn_by, msg["mask"]


def _has_gradient(msg: Any) -> bool:
    """Whether the value of a site was drawn, with a gradient."""
    value = msg["value"]
    return not msg["is_observed"] and isinstance(value, Tensor) and value.requires_grad


def _check_summed_out(msg: Any) -> None:
    """Refuse a finite site that a bound draws from its prior, since its guide has no such site."""
    # A run of Pyro's that scores nothing.
    guess = any(f.f_code.co_name == "_guess_max_plate_nesting" for f, _ in walk_stack(None))
    if guess or msg["infer"].get("_enumerate_dim") is not None:
        return
    replays: Any = [h for h in runtime._PYRO_STACK if isinstance(h, ReplayMessenger)]
    if any(h.trace is not None and msg["name"] not in h.trace for h in replays):
        raise RuntimeError(
            f"site '{msg['name']}' has finitely many values, which this bound does not sum out: it "
            "would draw one from its prior, and be no bound on log p(y | x, r). Use "
            "pyro.infer.TraceEnum_ELBO"
        )


class _GuardedSite(Independent):
    """The distribution of a site as it is, `Independent(fn, 0)`, but for its density.

    Importance sampling and MCMC may meet a density of 0, where c contradicts y. A gradient along
    the draws of a guide does not see that edge, and the bound is -inf.
    """

    drawn_by: str | None = None
    site_mask: Any = None

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, which is refused for a cost from its prior, or one of a guide against y.

        :raises RuntimeError: unless the program is rendered.
        """
        if self.drawn_by == "prior" and not get_provenance(value):
            raise RuntimeError(
                "site 'c' was drawn from p(c|z) although y is observed, so the draw contradicts y. "
                f"{_CURE}"
            )
        log_p: Tensor = super().log_prob(value)
        counted: Tensor = scale_and_mask(log_p, mask=self.site_mask)
        if self.drawn_by == "guide" and torch.is_grad_enabled() and (counted == -math.inf).any():
            raise RuntimeError(
                "the guide, such as AutoNormal, draws site 'c' where it contradicts y: the density "
                f"is 0 there and the loss infinite. {_CURE}"
            )
        return log_p
