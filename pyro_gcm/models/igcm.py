"""The implicit generative cost model (paper, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
from torch import Tensor, nn

from pyro_gcm._options import module_or, seed_of
from pyro_gcm._recipe import recorded
from pyro_gcm._shapes import broadcast_shapes
from pyro_gcm._validation import ArrayLike, matrix, positive_int, same_rows
from pyro_gcm.distributions import (
    LatentMixture,
    OrderEvent,
    coordinates,
    integrates_over,
    is_independent_normal,
    linear_gaussian_posterior,
)
from pyro_gcm.distributions.numerics import coarse, on_grid
from pyro_gcm.inference.views import CostGuard
from pyro_gcm.models import build
from pyro_gcm.models.column_units import in_units
from pyro_gcm.models.distribution_predictions import DistributionPredictions
from pyro_gcm.models.implicit_objectives import IGCM_OBJECTIVES
from pyro_gcm.models.prediction_method import prediction
from pyro_gcm.models.response import Response
from pyro_gcm.nets import Conditional, PositiveLinear, StandardNormal
from pyro_gcm.nets.conditional import joined
from pyro_gcm.sampling.base_samples import in_blocks


@recorded("models.IGCM")
class IGCM(DistributionPredictions):
    """Implicitly monotone p(y | x, r): r and y both rise with a latent kernel k.

    Generative story, every name a Pyro site::

        z ~ p(z) or p(z|x)      # what the row is like
        k ~ N(0, I) or p(k|x)   # kernel revenue, what r and y have in common
        x ~ p(x|z, k)           # covariates (with p(z|x) they are an input)
        c ~ p(c|z)              # costs, independent of k given x
        r = W k + dr            # revenues, dr ~ p(dr|x) normal, W > 0
        y = 1 if c < k in the product order, else 0

    p(y | x, k) is strictly increasing in k and p(r | x, k) stochastically so; p(y | x, r) need not
    be increasing in r. The sites x, r and y are in the units of the data, k and c have none.

    Objectives of `fit`: "conditional", log p(y | x, r), with k drawn from its exact Gaussian
    p(k | x, r); "response_revenue", log p(y, r | x); "joint", log p(x, r, y), with prior
    "standard"; and "paper", the loss of section 3.4, which is no bound on any of them. `predict`
    averages over the exact p(k | x, r), and after "paper" over the guide q(k | x, r), as there.

    :param x_dim: number of covariates.
    :param r_dim: number of revenues m.
    :param k_dim: dimension K of k, r_dim by default.
    :param response: "binary", "continuous" or a `models.responses.Response`.
    :param prior, guide, z_dim, hidden, alternatives, costs, cost_family, p0: as for `GCM`; one cost
        for each coordinate of k by default.
    :param kernel_prior: "standard" is N(0, I), "conditional" learns p(k|x); or a module that takes
        standardised x to a distribution of k.
    :param kernel_guide: "exact" draws k from p(k | x, r), which is Gaussian where p(k) is;
        "amortised" is q(k|x, r), "posterior" q(k|x, r, y), both also with the ending "_full"; or a
        module that takes (x, r, y). Objective "paper" needs a q(k|x, r).
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

    objective_types = {objective.name: objective for objective in IGCM_OBJECTIVES}
    objectives = tuple(objective_types)

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        k_dim: int | None = None,
        response: str | Response = "binary",
        prior: str | nn.Module = "conditional",
        guide: str | nn.Module | None = None,
        kernel_prior: str | nn.Module = "standard",
        kernel_guide: str | nn.Module = "exact",
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
        hidden, seed = build.hidden_widths(hidden), seed_of(seed)
        self.k_dim = self.r_dim if k_dim is None else positive_int("k_dim", k_dim)
        self.kernel_dims = {"k": self.k_dim}
        cost_shape = build.cost_shape(alternatives, self.k_dim if costs is None else costs)
        parts: Any = {"response": response, "prior": prior, "guide": guide}
        with build.seeded_weights(seed):
            self.add_costs(cost_shape, hidden, **parts, cost_family=cost_family, p0=p0)
            if self.response.not_for_igcm:
                named, why = self.response.named, self.response.not_for_igcm
                raise ValueError(f"response={named!r} needs GCM: {why}, r = W k + dr")
            if kernel_map is None:
                kernel_map = "identity" if cost_shape == (self.k_dim,) else "positive_linear"
            self.kernel_map = build.revenue_map_part(
                kernel_map, self.k_dim, cost_shape, "kernel_map"
            )
            self.k_prior = build.kernel_prior_part(kernel_prior, self.x_dim, self.k_dim, hidden)
            self.k_guide = build.kernel_guide_part(
                kernel_guide, self.x_dim, self.r_dim, self.k_dim, hidden
            )
            self._check_kernel()
            self.loading = PositiveLinear(self.k_dim, (self.r_dim,))
            noise = dist.Normal, self.x_dim, (self.r_dim,), hidden
            self.dr_net = module_or("dr_net", dr_net, Conditional, *noise)
            if not is_independent_normal(build.one_row(self.dr_net, self.x_dim)):
                raise ValueError("dr_net must give a normal p(dr|x) with independent columns")
            self.x_decoder: Any = build.x_decoder_part(
                x_decoder, self.z_prior, self.z_dim + self.k_dim, self.x_dim, hidden
            )
        self.add_units(num_samples, self.z_dim + self.k_dim, seed)

    def _check_kernel(self) -> None:
        """Refuse a prior and a guide of k that do not fit together."""
        p_k = build.one_row(self.k_prior, self.x_dim)
        self.exact_kernel = is_independent_normal(p_k)
        self.k_guide_reads_outcome = build.reads_outcome(self.k_guide, self.x_dim, self.r_dim)
        if self.k_guide is None and not self.exact_kernel:
            raise ValueError(
                "kernel_guide='exact' needs a normal kernel_prior with independent coordinates, "
                f"got {type(coordinates(p_k)).__name__}: pass kernel_guide='amortised'"
            )
        if not self.exact_kernel and self.k_guide_reads_outcome:
            raise ValueError(
                "kernel_guide reads y, and with a kernel_prior that is not normal a prediction "
                "draws k from the guide: there it must be q(k|x, r), such as 'amortised'"
            )

    def model(
        self,
        x: Tensor | None = None,
        r: Tensor | None = None,
        y: Tensor | None = None,
        *,
        size: int = 1,
    ) -> Tensor:
        """The explicit program; what is not given is drawn.

        :param x: [B, x_dim] in data units; needed with a conditional prior.
        :param r: [B, r_dim].
        :param y: [B].
        :param size: number of rows when neither x nor r is given.
        :returns: y, [B].
        """
        x, r, y, rows = self.program_inputs(x, r, y, size=size)
        given: Any = {"given_inputs": partial(self.k_given, x, r)}
        with pyro.plate("data", rows, dim=-1), CostGuard():
            z = pyro.sample("z", self.z_dist(x), infer=self.infer["z"])
            k = pyro.sample("k", self.k_dist(x), infer=given)
            x = pyro.sample("x", self.x_dist(z, k, x), obs=x, infer=self.infer["x"])
            covariates = self.x_standardizer(x)
            r = pyro.sample("r", self.r_dist(k, covariates), obs=r)
            p_c = self.c_dist(z, covariates)
            c = pyro.sample("c", p_c)
            return pyro.sample("y", self.y_dist(p_c, covariates, k, r).given_cost(c), obs=y)

    def guide(self, x: Tensor, r: Tensor, y: Tensor | None = None) -> None:
        """z from p(z|x) or from q, k from the exact p(k|x, r) or from q.

        A z with a finite support is summed out, so that it has no site here.
        """
        x, r, y, rows = self.program_inputs(x, r, y)
        with pyro.plate("data", rows, dim=-1):
            if not self.enumerates:
                pyro.sample("z", self.z_guide_dist(x, r, y))
            pyro.sample("k", self.k_guide_dist(x, r, y))

    # The factors of the program, besides z and c

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
        """What site k becomes where x and r are inputs of the program, in data units."""
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

    def x_dist(self, z: Tensor, k: Tensor, x: Tensor | None) -> Any:
        """p(x|z, k) in data units; with a prior p(z|x), x [B, x_dim] itself."""
        if self.reads_x:
            return dist.Delta(x, event_dim=1).mask(False)
        return in_units(lambda: self.standard_x_dist(z, k), z.shape[:-1], self.x_standardizer)

    def standard_x_dist(self, z: Tensor, k: Tensor) -> Any:
        """p(x|z, k) of standardised x."""
        return self.x_decoder(joined(z, k))

    def r_dist(self, k: Tensor, covariates: Tensor) -> Any:
        """p(r|k, x) in data units: W k + dr."""
        shape = broadcast_shapes(k.shape[:-1], covariates.shape[:-1])
        return in_units(lambda: self.standard_r_dist(k, covariates), shape, self.r_standardizer)

    def standard_r_dist(self, k: Tensor, covariates: Tensor) -> Any:
        """p(r|k, x) of standardised r."""
        dr = self.dr_net(covariates).base_dist
        return dist.Normal(self.loading(k) + dr.loc, dr.scale).to_event(1)

    def y_dist(self, cost: Any, covariates: Tensor, k: Tensor, r: Tensor) -> Any:
        """p(y | z, x, k), the costs integrated out: what the response makes of the order event."""
        return self.response.distribution(OrderEvent(cost, self.kernel_map(k)), covariates, r)

    # The kernel in closed form

    @property
    def kernel_enters_as_it_is(self) -> bool:
        """Whether y is the event that the costs stay below k itself."""
        return isinstance(self.kernel_map, nn.Identity) and self.response.is_event

    @property
    def integrates_kernel(self) -> bool:
        """Whether E_k has a closed form under the exact p(k|x, r); for K > 1 that is correlated."""
        if self.k_dim > 1 or not self.kernel_enters_as_it_is:
            return False
        cost = build.one_row(self.cost_net, self.z_dim)
        return integrates_over(cost, build.one_row(self.k_prior, self.x_dim))

    # Predictions

    def revenue_given(self, r: Tensor, sites: Mapping[str, Tensor], covariates: Tensor) -> Tensor:
        """The mapped kernel."""
        k: Tensor = self.kernel_map(sites["k"])
        return k

    @prediction
    def predict_given_kernel(
        self, x: ArrayLike, k: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """Prediction for rows whose kernel is set to k; it never decreases in k.

        After "joint" training that is not p(y | x, k): there x ~ p(x|z, k), so that z and k, and
        with them c and k, depend on each other once x is known.

        :param x: [B, x_dim] in data units.
        :param k: [B, k_dim].
        :returns: [B].
        """
        x = matrix("x", x, self.x_dim, "x_dim", self.device)
        k = matrix("k", k, self.k_dim, "k_dim", self.device).to(self.dtype)
        same_rows(x=x, k=k)
        base, objective = self.base(num_samples), self.trained_objective

        def block(x: Tensor, k: Tensor) -> Tensor:
            draws = objective.draw(x, base, self.seed)
            cost = self.c_dist(draws.z, draws.covariates)
            event = OrderEvent(cost, on_grid(self.kernel_map(coarse(k))))
            return draws.mean(self.response.predict(event, draws.covariates))

        dtype = self.response.prediction_dtype(self.dtype)
        return in_blocks(block, x, k, draws=len(base)).to(dtype)

    def cost(self, x: ArrayLike, *, num_samples: int | None = None) -> LatentMixture:
        """p(c | x), as of `GCM`, in the units of k (after the kernel map, if there is one).

        :raises ValueError: after "joint" training, where x depends on k as well, so that p(c | x)
            has no simple form.
        """
        if self.objective == "joint":
            raise ValueError(
                "cost(x) is not available after objective='joint', where x depends on k as well"
            )
        return super().cost(x, num_samples=num_samples)

    @prediction
    def kernel(self, x: ArrayLike, r: ArrayLike) -> Any:
        """The distribution of k given x and r that predictions average over, batch shape [B].

        After "joint" training predictions also weigh its draws by p(x|z, k).

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        """
        rows = self.rows(x, r)
        covariates, revenues = self.x_standardizer(rows.x), self.r_standardizer(rows.r)
        objective: Any = self.trained_objective
        return objective.kernel(covariates, revenues)
