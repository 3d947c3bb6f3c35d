"""Sites of an explicit program whose density must not be computed, or not be differentiated."""

from __future__ import annotations

import math
from traceback import walk_stack
from typing import Any, NoReturn

import torch
from pyro.distributions import Independent
from pyro.infer import TraceTMC_ELBO
from pyro.ops.provenance import get_provenance
from pyro.poutine import runtime
from pyro.poutine.block_messenger import BlockMessenger
from pyro.poutine.messenger import Messenger
from pyro.poutine.replay_messenger import ReplayMessenger
from torch import Tensor

from pyro_gcm._utils.warn import warn_user
from pyro_gcm.distributions import CostPosterior

CURE = (
    "Integrate the cost out with inference.collapse(model) (or inference.conditional), and make an "
    "autoguide of that program; or give the guide a site 'c' from the exact CostPosterior."
)


class SiteGuard(Messenger):
    """Raises an error where a program would be trained on another bound than it looks.

    A cost drawn from p(c|z), or by an autoguide, contradicts an observed y most of the time, so
    that the density of y is 0. Drawing is harmless (it shows the program's graph); asking for that
    density raises, and for the draws of a guide asking for its gradient.

    A finite site that the guide leaves out is to be summed out; a bound that does not do so would
    draw it from its prior, and be a bound on something else.
    """

    _infer: Any = None
    _from_prior = False
    _guided: Any = None

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] == "c":
            self._infer = msg["infer"]
        elif msg["name"] == "y" and msg["is_observed"] and self._from_prior:
            msg["fn"] = ContradictedCost(msg["fn"], 0)
        elif msg["name"] == "y" and getattr(msg["fn"], "cost", None) is self._guided is not None:
            msg["fn"] = OutcomeOfGuidedCost(msg["fn"], 0)

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["infer"].get("enumerate") and not msg["is_observed"]:
            _check_summed_out(msg)
        if msg["name"] == "c":
            if "prior" in msg["infer"] and not msg["is_observed"]:  # of an AutoMessenger
                raise RuntimeError(
                    f"the guide, such as AutoNormalMessenger, draws site 'c', without y. {CURE}"
                )
            # A guide's replay and `collapse` each bring an `infer` of their own.
            drawn = not msg["is_observed"]
            self._from_prior = drawn and msg["infer"] is self._infer
            value = msg["value"]
            guided = drawn and isinstance(value, Tensor) and value.requires_grad
            self._guided = value if guided else None
        elif isinstance(msg["fn"], GuardedSite):
            msg["fn"].site_mask = msg["mask"]


def _check_summed_out(msg: Any) -> None:
    """Refuse a finite site that a bound draws from its prior, since its guide has no such site."""
    if msg["infer"].get("_enumerate_dim") is not None:
        # For TMC its values are draws from the prior; no handler tells of it.
        callers = (frame.f_locals.get("self") for frame, _ in walk_stack(None))
        if any(isinstance(caller, TraceTMC_ELBO) for caller in callers):
            _refuse_finite(msg["name"])
        return
    stack: Any = runtime._PYRO_STACK
    if any(isinstance(handler, BlockMessenger) for handler in stack):
        return  # a run that looks for the nesting of plates
    replays = [handler for handler in stack if isinstance(handler, ReplayMessenger)]
    if any(handler.trace is not None and msg["name"] not in handler.trace for handler in replays):
        _refuse_finite(msg["name"])


def _refuse_finite(name: str) -> NoReturn:
    raise RuntimeError(
        f"site '{name}' has finitely many values, which this bound does not sum out: it would draw "
        "one from its prior, and be no bound on log p(y | x, r). Use pyro.infer.TraceEnum_ELBO"
    )


class GuardedSite(Independent):
    """The distribution of a site as it is, `Independent(fn, 0)`, but for its density."""

    #: The site's mask, once it is known.
    site_mask: Any = None

    def with_guarded_gradient(self, log_p: Tensor, cost: Tensor, jumps: bool) -> Tensor:
        """The same numbers, whose gradient with respect to `cost` is refused where it is wrong.

        A density that is 0 where c contradicts y has a bound of -inf under a guide that draws such
        a c, and a gradient along the draws that does not see the edge. Importance sampling and
        MCMC may meet a density of 0; they do not differentiate it along the draws of a guide.

        :param jumps: whether the density has other jumps.
        """
        contradicts = log_p == -math.inf
        if self.site_mask is not None:
            contradicts = contradicts & self.site_mask
        refused = bool(contradicts.any())
        if refused or jumps:
            log_p = _Path.apply(log_p, cost, refused)
        return log_p


class ContradictedCost(GuardedSite):
    """An observed y given a cost that was drawn from its prior: its density raises an error.

    Such a cost contradicts y most of the time, so that the density is 0.
    """

    def log_prob(self, value: Tensor) -> Tensor:
        """Raise an error.

        :raises RuntimeError: always, except while the program is rendered.
        """
        if get_provenance(value):  # pyro.render_model asks what y depends on
            return super().log_prob(value)
        raise RuntimeError(
            f"site 'c' was drawn from p(c|z) although y is observed, so the draw contradicts y. "
            f"{CURE}"
        )


class OutcomeOfGuidedCost(GuardedSite):
    """An observed y given a cost that a guide has drawn, with a gradient."""

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, whose gradient raises an error where the cost contradicts y."""
        log_p: Tensor = super().log_prob(value)
        jumps = not self.support.is_discrete
        return self.with_guarded_gradient(log_p, self.base_dist.cost, jumps)


class GuidedCost(GuardedSite):
    """A cost given y, as `uncollapse` draws it."""

    #: Whether a guide has drawn it.
    is_guided = False

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, whose gradient raises an error where a guided cost contradicts y."""
        log_p: Tensor = super().log_prob(value)
        if not (self.is_guided and value.requires_grad):
            return log_p
        jumps = False
        if isinstance(self.base_dist, CostPosterior):  # of a y that does not decide the event
            y = self.base_dist.outcome
            jumps = bool(((y > 0) & (y < 1)).any())
        return self.with_guarded_gradient(log_p, value, jumps)


class _Path(torch.autograd.Function):
    """The identity of log-densities, whose gradient is an error or warns."""

    @staticmethod
    def forward(ctx: Any, log_p: Tensor, cost: Tensor, refused: bool) -> Tensor:
        ctx.refused = refused
        return log_p.view_as(log_p)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        if ctx.refused:
            raise RuntimeError(
                "the guide, such as AutoNormal, draws site 'c' where it contradicts y: the density "
                f"is 0 there and the loss infinite. {CURE}"
            )
        warn_user(
            "the density of y given c jumps where a cost meets its revenue; the gradient along "
            f"reparametrised draws of site 'c' does not see that, and is biased. {CURE}"
        )
        return *grads, None, None
