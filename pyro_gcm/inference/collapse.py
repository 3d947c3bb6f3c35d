"""Views of an explicit program: costs marginalised, costs recovered, y given x and r."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import torch
from pyro.distributions import TorchDistribution
from pyro.poutine.messenger import Messenger
from torch import Tensor

Program = Callable[..., Any]


def collapse(model: Program, *, cost: str = "c", outcome: str = "y") -> Program:
    """The program with its costs integrated out in closed form: what training runs.

    Site `cost` disappears and the distribution at site `outcome` is replaced by its marginal over
    the costs. Inside the collapsed program the cost is NaN, so that anything else computed from it
    is visibly undefined.

    :param model: a program with a site `c ~ p(c|z)` and a site `y` whose distribution takes c: an
        `OrderEvent(c, r)`, or any distribution with a `marginalize(cost_distribution)` method. A
        model object stands for its `.model`.
    :raises RuntimeError: when run, if the two sites are not there or do not belong together.

    >>> import pyro, pyro.distributions as dist, torch
    >>> from pyro_gcm.distributions import OrderEvent
    >>> def program(r, y=None):
    ...     c = pyro.sample("c", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    ...     return pyro.sample("y", OrderEvent(c, r), obs=y)
    >>> trace = pyro.poutine.trace(collapse(program)).get_trace(torch.zeros(2), torch.tensor(1.0))
    >>> trace.log_prob_sum().exp().item()  # Pr(c < 0) of two standard normal costs
    0.25
    """
    return _wrap(CollapseMessenger(cost, outcome), model)


def uncollapse(model: Program, *, cost: str = "c", outcome: str = "y") -> Program:
    """The program with the costs drawn after y, exactly from p(c | z, r, y).

    The joint distribution is that of the explicit program, as p(y | z, r) p(c | z, r, y): what
    `Predictive` has to run to see costs that agree with an observed y.
    """
    return _wrap(UncollapseMessenger(cost, outcome), model)


def conditional(model: Program) -> Program:
    """p(y | x, r) as a program of its own: x and r inputs, w hidden, c collapsed.

    What `fit` trains by default, and what to hand to `pyro.infer.SVI` or any Pyro ELBO together
    with the model's guide::

        svi = SVI(conditional(gcm.model), gcm.guide, Adam({"lr": 0.01}), Trace_ELBO())

    :raises RuntimeError: when run without x or r.
    """
    return _wrap(_HideInputs(), collapse(model))


def _wrap(messenger: Messenger, model: Program) -> Program:
    program: Program = messenger(getattr(model, "model", model))
    return program


class CollapseMessenger(Messenger):
    """Handler behind `collapse`."""

    def __init__(self, cost: str = "c", outcome: str = "y") -> None:
        super().__init__()
        self.cost, self.outcome = cost, outcome

    def __enter__(self) -> Any:
        self._cost_fn: TorchDistribution | None = None
        self._placeholder: Tensor | None = None
        return super().__enter__()

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        unused = self._placeholder is not None
        self._placeholder = self._cost_fn = None
        # First off the stack, or the handler would stay there for every later program.
        result = super().__exit__(exc_type, exc_value, traceback)
        if exc_type is None and unused:
            raise RuntimeError(
                f"collapse hid site '{self.cost}', but no site '{self.outcome}' came after it"
            )
        return result

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] == self.cost:
            if msg["is_observed"]:
                raise RuntimeError(
                    f"site '{self.cost}' is observed and cannot be integrated out: run the "
                    "explicit program, without collapse"
                )
            self._cost_fn = msg["fn"]
            self._placeholder = torch.full((), math.nan).expand(msg["fn"].shape())
            msg["value"], msg["done"], msg["stop"] = self._placeholder, True, True
            msg["infer"] = {**msg["infer"], "collapsed": True}
        elif msg["name"] == self.outcome:
            msg["fn"] = self._marginal(msg["fn"])

    def _marginal(self, fn: Any) -> TorchDistribution:
        if self._cost_fn is None:
            raise RuntimeError(
                f"collapse found no site '{self.cost}' before site '{self.outcome}'; "
                "name the sites with collapse(model, cost=..., outcome=...)"
            )
        taken = getattr(fn, "cost", self._placeholder)
        if not hasattr(fn, "marginalize") or taken is not self._placeholder:
            raise RuntimeError(
                f"site '{self.outcome}' must take the value of site '{self.cost}' as its cost and "
                f"have a marginalize method, got {type(fn).__name__}"
            )
        marginal: TorchDistribution = fn.marginalize(self._cost_fn).expand(fn.batch_shape)
        self._placeholder = None
        return marginal


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
                pyro.sample(self.cost, msg["fn"].cost_posterior(msg["value"]))
            finally:
                self._recovering = False


class _HideInputs(Messenger):
    """Keeps x, r and w from every handler outside."""

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in ("x", "r") and not msg["is_observed"]:
            raise RuntimeError(
                f"conditional: '{msg['name']}' is an input of p(y | x, r) and must be given"
            )
        if msg["name"] in ("x", "r", "w"):
            msg["stop"] = True
