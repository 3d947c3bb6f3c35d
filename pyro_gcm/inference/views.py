"""Views of an explicit program: costs integrated out or recovered, y given x and r, tempering."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pyro
from pyro.distributions import TorchDistribution
from pyro.ops.provenance import detach_provenance
from pyro.poutine.messenger import Messenger
from pyro.poutine.scale_messenger import ScaleMessenger
from torch import nn

from pyro_gcm._utils.validation import positive
from pyro_gcm.distributions.event_sides import Left
from pyro_gcm.inference.guards import GuidedCost
from pyro_gcm.inference.reading import Program


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


def given_inputs(model: Program) -> Program:
    """The program with x and r as inputs: sites x, r and w are kept from every handler outside.

    A latent variable that r depends on is drawn from its distribution given x and r, where its site
    says so: `infer={"given_inputs": function -> distribution}`, as the kernel k of `IGCM` does.

    :raises RuntimeError: when run without x or r.
    """
    return _wrap(HideInputsMessenger(("x", "r", "w")), model)


def conditional(model: Program, *, kernel: str | None = None) -> Program:
    """p(y | x, r) as a program of its own: x and r inputs, w hidden, c collapsed.

    What `fit` trains by default, and what to hand to `pyro.infer.SVI` or any Pyro ELBO together
    with the model's guide::

        svi = SVI(conditional(gcm.model), gcm.guide, Adam({"lr": 0.01}), Trace_ELBO())

    :raises RuntimeError: when run without x or r.
    """
    return collapse(given_inputs(model), kernel=kernel)


def given_covariates(model: Program) -> Program:
    """p(y, r | x) as a program of its own: x an input, c collapsed (`IGCM`)."""
    return collapse(_wrap(HideInputsMessenger(("x",)), model))


def temper(program: Program, scale: float, *, sites: Collection[str] = ("z",)) -> Program:
    """`pyro.poutine.scale` for some sites only: their log-densities count `scale` times.

    Applied to a program and its guide it weighs the prior against the likelihood, as the factor
    beta of a beta-VAE does: below 1 the guide may leave the prior at a lower price. The value is
    then no longer a bound on an evidence. Where the guide is the prior the two cancel at any scale.

    :param scale: factor above 0.
    :param sites: names of the sites.
    """
    return _wrap(ScaleSites(positive("scale", scale), sites), program)


def _wrap(messenger: Messenger, model: Program) -> Program:
    return messenger(getattr(model, "model", model))


class CollapseMessenger(Messenger):
    """Handler behind `collapse`: a site's distribution in the place of its value."""

    def __init__(self, cost: str = "c", outcome: str = "y", kernel: str | None = None) -> None:
        super().__init__()
        self.cost, self.outcome, self.kernel = cost, outcome, kernel
        self.names = [cost] if kernel is None else [cost, kernel]

    def __enter__(self) -> Any:
        self._left: dict[str, Left] = {}
        return super().__enter__()

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        unused = list(self._left)
        self._left = {}
        # First off the stack, or the handler would stay there for every later program.
        result = super().__exit__(exc_type, exc_value, traceback)
        if exc_type is None and unused:
            raise RuntimeError(
                f"collapse hid site '{unused[0]}', but no site '{self.outcome}' came after it"
            )
        return result

    def _pyro_sample(self, msg: Any) -> None:
        name = msg["name"]
        if name in self.names:
            if msg["is_observed"]:
                raise RuntimeError(
                    f"site '{name}' is observed and cannot be integrated out: run the "
                    "explicit program, without collapse"
                )
            self._left[name] = msg["value"] = Left(name, msg["fn"])
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
        cost, kernel = self._left[self.cost], self._left.get(self.kernel or "")
        self._left = {}
        if getattr(fn, "cost", None) is cost and hasattr(fn, "marginalize"):
            fn, cost.is_used = fn.marginalize(cost.fn), True
        for left, what in ((cost, "cost"), (kernel, "revenue")):
            if left is not None and not left.is_used:
                raise RuntimeError(
                    f"site '{self.outcome}' must take the value of site '{left.name}' as its "
                    f"{what}, in an OrderEvent, got {type(fn).__name__}"
                )
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
                marginal, y = msg["fn"], msg["value"]
                if self.kernel is not None:
                    k = pyro.sample(self.kernel, marginal.revenue_posterior(y))
                    marginal = marginal.given_revenue(k)
                pyro.sample(self.cost, GuidedCost(marginal.cost_posterior(y), 0))
            finally:
                self._recovering = False
        elif self._recovering and isinstance(msg["fn"], GuidedCost):
            msg["fn"].is_guided, msg["fn"].site_mask = not msg["is_observed"], msg["mask"]


class HideInputsMessenger(Messenger):
    """Keeps inputs from every handler outside."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names

    def _pyro_sample(self, msg: Any) -> None:
        name = msg["name"]
        if name in ("x", "r") and name in self.names and not msg["is_observed"]:
            raise RuntimeError(
                f"conditional: '{name}' is an input of p(y | x, r) and must be given"
            )
        if name in self.names:
            msg["stop"] = True
        elif "r" in self.names and "given_inputs" in msg["infer"]:
            msg["fn"] = msg["infer"]["given_inputs"]().expand(msg["fn"].batch_shape)


class ScaleSites(ScaleMessenger):
    """`pyro.poutine.scale` for some sites."""

    def __init__(self, scale: float, sites: Collection[str]) -> None:
        super().__init__(scale)
        self.sites = frozenset(sites)

    def _process_message(self, msg: Any) -> None:
        if msg["name"] in self.sites:
            super()._process_message(msg)


_announces = ContextVar("announces_parameters", default=True)


def announce(name: str, module: nn.Module) -> None:
    """Tell Pyro's store of the parameters, for `pyro.infer.SVI`; not inside `unannounced`.

    :raises RuntimeError: where the store has other tensors under these names, which would be
        trained in the place of the module's.
    """
    if not _announces.get():
        return
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


def is_announcing() -> bool:
    """Whether `announce` does anything: not inside `unannounced`."""
    return _announces.get()


@contextmanager
def unannounced() -> Iterator[None]:
    """For a trainer that holds the parameters itself: saves a message a parameter and run."""
    token = _announces.set(False)
    try:
        yield
    finally:
        _announces.reset(token)
