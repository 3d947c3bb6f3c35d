"""Sites of an explicit program whose density must not be asked for, or not be differentiated."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from pyro.ops.provenance import get_provenance
from torch import Tensor

from pyro_gcm._utils.warn import warn_user
from pyro_gcm.distributions import CostPosterior

CURE = (
    "Integrate the cost out with inference.collapse(model) (or inference.conditional), and make an "
    "autoguide of that program; or give the guide a site 'c' from the exact CostPosterior."
)


class GuardedSite(TorchDistribution):
    """The distribution of a site as it is, but for its density.

    :param fn: the distribution.
    """

    arg_constraints: dict[str, Any] = {}
    #: The site's mask, once it is known.
    site_mask: Any = None

    def __init__(self, fn: Any) -> None:
        self.base_dist = fn
        super().__init__(fn.batch_shape, fn.event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        """The support of the distribution."""
        return self.base_dist.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> GuardedSite:
        """The same with a larger batch shape."""
        new = copy.copy(self)
        new.base_dist = self.base_dist.expand(torch.Size(batch_shape))
        new._batch_shape = new.base_dist.batch_shape
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of the distribution."""
        draw: Tensor = self.base_dist.sample(torch.Size(sample_shape))
        return draw

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of the distribution."""
        log_p: Tensor = self.base_dist.log_prob(value)
        return log_p

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
        if get_provenance(value):  # render_model asks what y depends on, not for its density
            return super().log_prob(value)
        raise RuntimeError(
            f"site 'c' was drawn from p(c|z) although y is observed, so the draw contradicts y. "
            f"{CURE}"
        )


class OutcomeOfGuidedCost(GuardedSite):
    """An observed y given a cost that a guide has drawn, with a gradient."""

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, whose gradient raises an error where the cost contradicts y."""
        log_p = super().log_prob(value)
        jumps = not self.support.is_discrete
        return self.with_guarded_gradient(log_p, self.base_dist.cost, jumps)


class GuidedCost(GuardedSite):
    """A cost given y, as `uncollapse` draws it."""

    #: Whether a guide has drawn it.
    is_guided = False

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, whose gradient raises an error where a guided cost contradicts y."""
        log_p = super().log_prob(value)
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
