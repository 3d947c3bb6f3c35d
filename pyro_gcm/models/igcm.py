"""The implicit generative cost model (paper, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.torch_state import Randomness, evaluating
from pyro_gcm._utils.validation import ArrayLike, one_of, positive_int, seed_of
from pyro_gcm.distributions import LatentMixture, OrderEvent, coordinates
from pyro_gcm.distributions.order_event import integrates_over
from pyro_gcm.distributions.posteriors import linear_gaussian_posterior
from pyro_gcm.inference.reading import Plan, Reader, in_units
from pyro_gcm.models.base import once
from pyro_gcm.models.build import (
    KERNEL_GUIDES,
    GuideName,
    PriorName,
    ResponseName,
    check_guide,
    check_part,
    cost_shape_of,
    prior_part,
    revenue_map_part,
    x_decoder_part,
)
from pyro_gcm.models.predictions import Count, prediction
from pyro_gcm.models.surfaces import Surfaces
from pyro_gcm.nets import Conditional, PositiveLinear, RevenueGuide, StandardNormal
from pyro_gcm.nets.networks import joined, widths_of
from pyro_gcm.prediction.predicted import SiteReader
from pyro_gcm.responses import Response


@recorded("models.IGCM")
class IGCM(Surfaces):
    """Implicitly monotone p(y | x, r): r and y both rise with a latent kernel k.

    Generative story, every name a Pyro site::

        z ~ p(z) or p(z|x)      # what the row is like
        k ~ N(0, I) or p(k|x)   # kernel revenue, what r and y have in common
        x ~ p(x|z, k)           # covariates (with p(z|x) they are an input)
        c ~ p(c|z)              # costs, independent of k given x
        r = W k + dr            # revenues, dr ~ p(dr|x) normal, W > 0
        y = 1 if c < k in the product order, else 0

    p(y | x, k) is strictly increasing in k and p(r | x, k) stochastically so; p(y | x, r) need not
    be increasing in r. The sites x, r and y are in the units of the data, k and c have no units.

    Objectives of `fit`: "conditional", log p(y | x, r), with k drawn from its exact Gaussian
    p(k | x, r); "joint", log p(x, r, y), with prior "standard"; and "paper", the loss of section
    3.4, which is no bound on either of them. `predict` averages over the exact p(k | x, r), and
    after "paper" over the guide q(k | x, r), as there.

    :param x_dim: number of covariates; `r_dim`: number of revenues m.
    :param k_dim: dimension K of k, r_dim by default.
    :param response: "binary", "continuous" or a `responses.Response`.
    :param prior, guide, z_dim, hidden, alternatives, costs, cost_family, p0: as for `GCM`; one cost
        for each coordinate of k by default.
    :param kernel_prior: "standard" is N(0, I), "conditional" learns p(k|x); or a module that takes
        standardised x to a normal distribution of k with independent coordinates.
    :param kernel_guide: "exact" draws k from the Gaussian p(k | x, r); "amortised" is q(k|x, r),
        which objective "paper" needs; or a module that takes (x, r, y).
    :param kernel_map: what the costs are compared with, an increasing function of k: "identity" for
        one alternative with a cost for each coordinate (default there), "positive_linear", or as
        `revenue_map` of `GCM`.
    :param dr_net: module that takes standardised x to p(dr|x), normal with independent columns.
    :param x_decoder: module that takes (z, k) [..., D + K] to p(x|z, k), with prior "standard".
    :param num_samples: draws of z and k that a prediction averages over.
    :param seed: seed of the initial weights and of the prediction noise.
    :param name: prefix of the parameters in Pyro's store; unique by default.
    :raises ValueError: for sizes below 1, unknown names, or parts that do not fit together.
    """

    objectives = {
        "conditional": Plan(untrained=("x_decoder.",)),
        "joint": Plan(given=()),
        "paper": Plan(given=("x",), untrained=("x_decoder.",)),
    }

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        k_dim: int | None = None,
        response: ResponseName | Response = "binary",
        prior: PriorName | nn.Module = "conditional",
        guide: GuideName | nn.Module | None = None,
        kernel_prior: Literal["standard", "conditional"] | nn.Module = "standard",
        kernel_guide: Literal["exact", "amortised"] | nn.Module = "exact",
        kernel_map: Any = None,
        z_dim: int = 4,
        hidden: int | Sequence[int] = 16,
        alternatives: int = 1,
        costs: int | None = None,
        cost_family: str | type | nn.Module = "normal",
        p0: str | nn.Module | None = None,
        dr_net: nn.Module | None = None,
        x_decoder: nn.Module | None = None,
        num_samples: int = 128,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(x_dim, r_dim, z_dim, name)
        hidden, seed = widths_of(hidden), seed_of(seed)
        self.k_dim = self.r_dim if k_dim is None else positive_int("k_dim", k_dim)
        cost_shape = cost_shape_of(alternatives, self.k_dim if costs is None else costs)
        with Randomness(seed).in_use():
            self._add_costs(cost_shape, hidden, response, prior, guide, cost_family, p0)
            self.response.check_generated()
            if kernel_map is None:
                kernel_map = "identity" if cost_shape == (self.k_dim,) else "positive_linear"
            sizes = self.k_dim, cost_shape
            self.kernel_map = revenue_map_part(kernel_map, *sizes, "kernel_map")
            self.units_of_costs = "k" if isinstance(self.kernel_map, nn.Identity) else "mapped k"
            self._add_kernel(kernel_prior, kernel_guide, dr_net, hidden)
            columns = self.z_dim + self.k_dim
            self.x_decoder: Any = x_decoder_part(self, x_decoder, columns, hidden)
        self._add_units(num_samples, {"z": self.z_dim, "k": self.k_dim}, seed)

    def _add_kernel(self, prior: Any, guide: Any, dr_net: Any, hidden: Any) -> None:
        """Build p(k) or p(k|x), q(k|x, r, y) and p(r|k, x)."""
        x_dim, r_dim, k_dim = self.x_dim, self.r_dim, self.k_dim
        sizes, names = (x_dim, k_dim, hidden), ("standard", "conditional")
        self.k_prior = prior_part("kernel_prior", prior, *sizes, names)
        self.k_guide: Any = guide if isinstance(guide, nn.Module) else None
        if self.k_guide is not None:
            check_guide("kernel_guide", guide, (x_dim, r_dim), (k_dim,))
        else:
            one_of("kernel_guide", guide, KERNEL_GUIDES)
        if guide == "amortised":
            self.k_guide = RevenueGuide(Conditional(dist.Normal, x_dim + r_dim, (k_dim,), hidden))
        self.loading = PositiveLinear(k_dim, (r_dim,))
        noise = dist.Normal, x_dim, (r_dim,), hidden
        self.dr_net = Conditional(*noise) if dr_net is None else dr_net
        for name, part in (("kernel_prior", self.k_prior), ("dr_net", self.dr_net)):
            p = coordinates(check_part(name, part, x_dim))
            if not isinstance(p, torch.distributions.Normal):
                raise ValueError(
                    f"{name} must be normal with independent coordinates, so that p(k|x, r) is "
                    f"known, got {type(p).__name__}"
                )

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        """The lines of the paper's figure; x and r are in data units."""
        z = sample("z", lambda: self.z_dist(x))
        k = sample("k", lambda: self.k_dist(x))
        x = sample("x", lambda: self.x_dist(z, k, x), obs=x)
        r = sample("r", lambda: self.r_dist(k, x), obs=r)
        c = sample("c", lambda: self.c_dist(z, x))
        return sample("y", lambda: self.y_dist(c, x, k, r), obs=y)

    def guide_story(self, sample: Any, x: Tensor, r: Tensor, y: Tensor | None) -> None:
        """z from q(z|x, r, y), and k from q(k|x, r, y) or the exact p(k|x, r)."""
        super().guide_story(sample, x, r, y)
        sample("k", lambda: self.k_guide_dist(x, r, y), exact=self.k_guide is None)

    # How its sites are treated

    @once
    def plan(self, objective: str) -> Plan:
        """With x and r as inputs, k is drawn from its exact p(k|x, r), or integrated out."""
        plan = super().plan(objective)
        if self._overrides("story", "k_dist", "r_dist") and not self._overrides("k_posterior"):
            self._check_kernel_lines()
        if objective != "conditional":
            return plan
        return self._with_kernel(plan, self.k_given, leave=self.k_guide is None)

    @property
    @once
    def prediction_plan(self) -> Plan:
        """k from the exact p(k|x, r); after objective "paper" from q(k|x, r)."""
        plan, joint = super().plan(self.objective), self.objective == "joint"
        if not (self.reads_x or self.z_guide is None):
            plan = replace(plan, proposals={"z": lambda of: self.z_guide_dist(of.x, None, None)})
        plan = replace(plan, given=("r",) if joint else ("x", "r"))
        p_k = self.k_given
        if self.objective == "paper":
            p_k = partial(self.k_guide_dist, y=None)
        return self._with_kernel(plan, p_k, leave=not joint, unweighted=() if joint else ("z",))

    @torch.no_grad()
    def _with_kernel(self, plan: Plan, p_k: Any, *, leave: bool, **others: Any) -> Plan:
        """The plan with k from a function of x and r; left where y is `OrderEvent(cost, p_k)`."""
        plain = isinstance(self.kernel_map, nn.Identity)
        if leave and plain and not self._overrides("story", "c_dist", "y_dist"):
            like: Any = {"dtype": self.dtype, "device": self.device}
            x, r = torch.zeros(1, self.x_dim, **like), torch.zeros(1, self.r_dim, **like)
            with evaluating(self):
                cost, k = check_part("cost_family", self.cost_net, self.z_dim), p_k(x, r)
                if integrates_over(cost, k):
                    event = OrderEvent(cost, k)
                    if self.response.distribution(event, x, r) is event:
                        others["left"] = ("c", "k")
        return replace(plan, exact={"k": lambda of: p_k(of.x, of.r)}, **others)

    def _check_kernel_lines(self) -> None:
        """Refuse a story whose lines of k and r are others than those that p(k|x, r) is of."""
        read = SiteReader(self, Plan(given=()))
        k = read.values["k"]
        with torch.no_grad(), evaluating(self):
            own = {"k": (IGCM.k_dist(self, read.x), k), "r": (IGCM.r_dist(self, k, read.x), read.r)}
            for name, (p, value) in own.items():
                if not torch.equal(read.told[name].log_prob(value), p.log_prob(value)):
                    raise ValueError(
                        f"the story has another distribution of '{name}' than IGCM, and p(k|x, r) "
                        "would be wrong: override k_posterior, too"
                    )

    def _check_objective(self, objective: str) -> None:
        """Refuse objectives that do not apply to these priors and guides."""
        super()._check_objective(objective)
        if objective == "joint" and not isinstance(self.k_prior, StandardNormal):
            raise ValueError(
                "objective='joint' needs kernel_prior='standard': with p(k|x), p(k|x) p(x|z, k) is "
                "not a density of x, and must not be maximised"
            )
        if objective == "paper" and self.enumerates:
            raise ValueError("objective='paper' averages over draws of z: not with a categorical z")
        if objective == "paper" and self.k_guide is None:
            raise ValueError(
                "objective='paper' needs a q(k|x, r) of its own, which predictions use as well: "
                "pass kernel_guide='amortised'"
            )
        if objective == "paper":
            sizes = (self.x_dim, self.r_dim), (self.k_dim,)
            check_guide("kernel_guide of objective='paper'", self.k_guide, *sizes, "xr")

    # The factors of the story, besides z and c

    def k_dist(self, x: Tensor | None) -> Any:
        """p(k), or p(k|x) for x in data units."""
        if isinstance(self.k_prior, StandardNormal):
            return self.k_prior()
        return self.k_prior(self.x_standardizer(x))

    def k_posterior(self, covariates: Tensor, r: Tensor) -> Any:
        """The exact p(k | x, r) of the linear model, for standardised x and r."""
        prior, noise = self.k_prior(covariates), self.dr_net(covariates)
        return linear_gaussian_posterior(prior, self.loading.weight, noise, r)

    def k_given(self, x: Tensor | None, r: Tensor | None) -> Any:
        """p(k | x, r) for x and r in data units."""
        if x is None or r is None:
            name = "x" if x is None else "r"
            raise RuntimeError(f"conditional: '{name}', an input of p(y | x, r), must be given")
        return self.k_posterior(self.x_standardizer(x), self.r_standardizer(r))

    def k_guide_dist(self, x: Tensor | None, r: Tensor | None, y: Tensor | None) -> Any:
        """q(k|x, r, y), or the exact p(k|x, r); arguments in data units."""
        if self.k_guide is None:
            return self.k_given(x, r)
        x, r = self.x_standardizer(x), self.r_standardizer(r)
        return self.k_guide(x, r, None if y is None else self.response.standardized(y).to(x.dtype))

    def x_dist(self, z: Tensor, k: Tensor, x: Tensor | None) -> Any:
        """p(x|z, k) in data units; with a prior p(z|x), x [B, x_dim] itself."""
        if self.reads_x:
            return dist.Delta(x, event_dim=1).mask(False)
        return in_units(self.x_decoder(joined(z, k)), self.x_standardizer)

    def r_dist(self, k: Tensor, x: Tensor) -> Any:
        """p(r|k, x) in data units: W k + dr."""
        covariates = self._read_covariates(x)
        dr = self.dr_net(covariates).base_dist
        standard = dist.Normal(self.loading(k) + dr.loc, dr.scale).to_event(1)
        return in_units(standard, self.r_standardizer)

    def y_dist(self, cost: Any, x: Tensor, k: Any, r: Tensor) -> Any:
        """p(y | z, x, k): what the response makes of the order event between cost and kernel.

        :param cost: the costs as the story's site gave them, or their distribution.
        """
        return self.outcome_dist(cost, self.kernel_map(k), self._read_covariates(x), r)

    # Predictions

    @prediction
    def kernel(self, x: ArrayLike, r: ArrayLike) -> Any:
        """The distribution of k given x and r that predictions average over, batch shape [B].

        After "joint" training predictions also weigh its draws by p(x|z, k).

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        """
        rows, plan = self.rows(x, r), self.prediction_plan
        return plan.exact["k"](Reader(self, plan, rows.x, rows.r))

    def cost(self, x: ArrayLike, *, num_samples: Count = None) -> LatentMixture:
        """p(c | x), as of `GCM`, in the units of k (after the kernel map, if there is one).

        :raises ValueError: after "joint" training: x depends on k as well, and p(c | x) is unknown.
        """
        if self.objective == "joint":
            raise ValueError(
                "cost(x) is not available after objective='joint', where x depends on k as well"
            )
        return super().cost(x, num_samples=num_samples)
