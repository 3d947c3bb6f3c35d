"""The kernel k of `IGCM`: its prior, its guide, and what is known of it given x and r."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._utils.evaluating import evaluating
from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm._utils.validation import ArrayLike
from pyro_gcm.distributions import (
    coordinates,
    integrates_over,
    is_independent_normal,
    linear_gaussian_posterior,
)
from pyro_gcm.inference.reading import OfReader, Plan, Reader, in_units
from pyro_gcm.models import build
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.models.predictions import prediction
from pyro_gcm.nets import PositiveLinear, RevenueGuide, StandardNormal
from pyro_gcm.nets.conditional import Conditional
from pyro_gcm.nets.parts import check_guide, one_row
from pyro_gcm.prediction.predicted import Dry

KERNEL_GUIDES = ("exact", "amortised")


class Kernel(Posteriors):
    """A model with a latent kernel k, of which the revenues are a linear function with noise."""

    k_dim: int
    kernel_map: nn.Module

    def add_kernel(self, prior: Any, guide: Any, dr_net: nn.Module | None, hidden: Any) -> None:
        """Build p(k) or p(k|x), q(k|x, r, y) and p(r|k, x); refuse what does not fit together."""
        sizes = self.x_dim, self.k_dim
        self.k_prior = build.prior_part("kernel_prior", prior, *sizes, hidden, ["conditional"])
        self.k_guide = kernel_guide_part(guide, self.x_dim, self.r_dim, self.k_dim, hidden)
        p_k = one_row(self.k_prior, self.x_dim)
        self.k_guide_reads_outcome = build.reads_outcome(self.k_guide, self.x_dim, self.r_dim)
        if not is_independent_normal(p_k):
            raise ValueError(
                "kernel_prior must be normal with independent coordinates, so that p(k|x, r) is "
                f"known, got {type(coordinates(p_k)).__name__}"
            )
        changed = self.overrides("k_dist", "r_dist", "standard_r_dist")
        if changed and not self.overrides("k_posterior"):
            raise ValueError(
                f"{type(self).__name__} overrides {changed[0]}, and so needs a k_posterior that "
                "goes with it"
            )
        self.loading = PositiveLinear(self.k_dim, (self.r_dim,))
        noise = dist.Normal, self.x_dim, (self.r_dim,), hidden
        self.dr_net = Conditional(*noise) if dr_net is None else dr_net
        if not is_independent_normal(one_row(self.dr_net, self.x_dim)):
            raise ValueError("dr_net must give a normal p(dr|x) with independent columns")

    def k_dist(self, x: Tensor | None) -> Any:
        """p(k), or p(k|x) for x in data units."""
        if isinstance(self.k_prior, StandardNormal):
            return self.k_prior()
        if x is None:
            raise ValueError("x must be given: the kernel prior p(k|x) reads it")
        return self.k_prior(self.x_standardizer(x))

    def k_posterior(self, covariates: Tensor, r: Tensor) -> Any:
        """The exact p(k | x, r) of the linear model, for standardised x and r."""
        prior, noise = self.k_prior(covariates), self.dr_net(covariates)
        return linear_gaussian_posterior(prior, self.loading.weight, noise, r)

    def k_given(self, x: Tensor | None, r: Tensor | None) -> Any:
        """Return the distribution of site k if x and r are inputs of the program, in data units."""
        for name, value in (("x", x), ("r", r)):
            if value is None:
                raise RuntimeError(
                    f"conditional: '{name}' is an input of p(y | x, r) and must be given"
                )
        return self.k_posterior(self.x_standardizer(x), self.r_standardizer(r))

    def k_guide_dist(self, x: Tensor | None, r: Tensor | None, y: Tensor | None) -> Any:
        """q(k|x, r, y), or the exact p(k|x, r); arguments in data units."""
        for name, value in (("x", x), ("r", r)):
            if value is None:
                raise ValueError(f"{name} must be given: the guide reads it")
        x, r = self.x_standardizer(x), self.r_standardizer(r)
        if self.k_guide is None:
            return self.k_posterior(x, r)
        return self.k_guide(x, r, None if y is None else self.response.standardized(y).to(x.dtype))

    def r_dist(self, k: Tensor, covariates: Tensor) -> Any:
        """p(r|k, x) in data units: W k + dr."""
        shape = broadcast_shapes(k.shape[:-1], covariates.shape[:-1])
        return in_units(lambda: self.standard_r_dist(k, covariates), shape, self.r_standardizer)

    def standard_r_dist(self, k: Tensor, covariates: Tensor) -> Any:
        """p(r|k, x) of standardised r."""
        dr = self.dr_net(covariates).base_dist
        return dist.Normal(self.loading(k) + dr.loc, dr.scale).to_event(1)

    def _check_kernel_lines(self) -> None:
        """Refuse a story whose lines of k and r are others than those that p(k|x, r) is of."""
        read = Dry.of(self, Plan(given=()))
        with torch.no_grad(), evaluating(self):
            x, r, k = read.x, read.r, read.values["k"]
            known = {"k": self.k_dist(x), "r": self.r_dist(k, self.x_standardizer(x))}
            for name, value in (("k", k), ("r", r)):
                if not torch.equal(read.told[name].log_prob(value), known[name].log_prob(value)):
                    raise ValueError(
                        f"the story has a distribution of '{name}' other than {name}_dist, and "
                        "p(k|x, r) would be wrong: override k_dist and r_dist instead"
                    )

    def _k_exact(self, read: Reader) -> Any:
        """p(k | x, r), exact."""
        return self.k_given(read.x, read.r)

    def _k_proposed(self, read: Reader) -> Any:
        """q(k | x, r), which has not seen y."""
        return self.k_guide_dist(read.x, read.r, None)

    # The kernel in closed form

    @property
    def has_identity_kernel_map(self) -> bool:
        """Whether y is the event that the costs stay below k itself."""
        return isinstance(self.kernel_map, nn.Identity) and self.response.is_event

    @property
    def integrates_kernel(self) -> bool:
        """Whether E_k has a closed form under the exact p(k|x, r); for K > 1 that is correlated."""
        return self._integrates(self._k_exact)

    @torch.no_grad()
    def _integrates(self, p_k: OfReader) -> bool:
        """Whether the order event has a closed form for this distribution of k."""
        if not self.has_identity_kernel_map or self.overrides("story", "c_dist", "y_dist"):
            return False
        like: Any = {"dtype": self.dtype, "device": self.device}
        x, r = torch.zeros(1, self.x_dim, **like), torch.zeros(1, self.r_dim, **like)
        cost = one_row(self.cost_net, self.z_dim)
        with evaluating(self):
            return integrates_over(cost, p_k(Reader(self, Plan(), x, r)))

    @prediction
    def kernel(self, x: ArrayLike, r: ArrayLike) -> Any:
        """The distribution of k given x and r that predictions average over, batch shape [B].

        After "joint" training predictions also weigh its draws by p(x|z, k).

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        """
        rows, plan = self.rows(x, r), self.prediction_plan
        return plan.exact["k"](Reader(self, plan, rows.x, rows.r))


def kernel_guide_part(
    guide: Any, x_dim: int, r_dim: int, k_dim: int, hidden: Any
) -> nn.Module | None:
    """q(k|x, r, y), or None where k is drawn from the exact p(k|x, r)."""
    if isinstance(guide, nn.Module):
        check_guide("kernel_guide", guide, (x_dim, r_dim), (k_dim,))
        return guide
    build.named("kernel_guide", guide, KERNEL_GUIDES, "(x, r, y)")
    if guide == "exact":
        return None
    return RevenueGuide(Conditional(dist.Normal, x_dim + r_dim, (k_dim,), hidden))
