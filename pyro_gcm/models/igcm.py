"""The implicit generative cost model (paper, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._validation import ArrayLike, matrix, one_of, positive_int, same_rows
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.deferred import Deferred
from pyro_gcm.distributions.latent_mixture import LatentMixture
from pyro_gcm.distributions.linear_gaussian import (
    coordinates,
    is_independent_normal,
    linear_gaussian_posterior,
)
from pyro_gcm.distributions.order_event import integrates_over
from pyro_gcm.inference.common_noise import coarse, driven_draws, in_blocks, on_grid
from pyro_gcm.inference.cost_guard import CostGuard
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.models.implicit_objectives import implicit_pair
from pyro_gcm.models.missing import in_units
from pyro_gcm.models.order_event_model import OrderEventModel, hidden_widths
from pyro_gcm.models.parts import (
    kernel_guide_part,
    kernel_prior_part,
    one_row,
    refuse_unused_decoder,
    revenue_map_part,
)
from pyro_gcm.models.predictions import Encoded, prediction
from pyro_gcm.models.responses import Binary, Response
from pyro_gcm.nets import Conditional, Identity, PositiveLinear, StandardNormal
from pyro_gcm.nets.conditional import joined


class IGCM(OrderEventModel):
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

    objectives = ("conditional", "response_revenue", "joint", "paper")
    _generates_revenue = True

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
        super().__init__(x_dim, r_dim, z_dim, seed, name)
        hidden = hidden_widths(hidden)
        self.k_dim = self.r_dim if k_dim is None else positive_int("k_dim", k_dim)
        alternatives = positive_int("alternatives", alternatives)
        costs = self.k_dim if costs is None else positive_int("costs", costs)
        with self._seeded():
            self._add_costs(response, prior, guide, hidden, alternatives, costs, cost_family, p0)
            if self.response.revenue() is not None:
                raise ValueError(
                    "response='quantile' has chosen levels in place of revenues; in IGCM revenues "
                    "are generated, r = W k + dr: use GCM"
                )
            plain = self.cost_shape == (self.k_dim,)
            default_map = "identity" if plain else "positive_linear"
            self.kernel_map = revenue_map_part(
                default_map if kernel_map is None else kernel_map,
                self.k_dim,
                self.cost_shape,
                "kernel_map",
            )
            self.k_prior = kernel_prior_part(kernel_prior, self.x_dim, self.k_dim, hidden)
            p_k = one_row(self.k_prior, self.x_dim)
            self.exact_kernel = is_independent_normal(p_k)
            self.k_guide = kernel_guide_part(
                kernel_guide, self.x_dim, self.r_dim, self.k_dim, hidden
            )
            if self.k_guide is None and not self.exact_kernel:
                raise ValueError(
                    "kernel_guide='exact' needs a normal kernel_prior with independent "
                    f"coordinates, got {type(coordinates(p_k)).__name__}: pass "
                    "kernel_guide='amortised'"
                )
            if not self.exact_kernel and getattr(self.k_guide, "reads_outcome", False):
                raise ValueError(
                    "kernel_guide reads y, and with a kernel_prior that is not normal a prediction "
                    "draws k from the guide: there it must be q(k|x, r), such as 'amortised'"
                )
            self.loading = PositiveLinear(self.k_dim, (self.r_dim,))
            self.dr_net = dr_net or Conditional(dist.Normal, self.x_dim, (self.r_dim,), hidden)
            if not is_independent_normal(one_row(self.dr_net, self.x_dim)):
                raise ValueError("dr_net must give a normal p(dr|x) with independent columns")
            refuse_unused_decoder(x_decoder, self.reads_x)
            if not self.reads_x:
                self.x_decoder = x_decoder or Conditional(
                    dist.Normal, self.z_dim + self.k_dim, (self.x_dim,), hidden
                )
        self._add_units(num_samples, self.z_dim + self.k_dim)

    # The program and its guide

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
        x, r, y, rows = self._program_inputs(x, r, y, size)
        covariates: Any = None if x is None else self.x_standardizer(x)

        def given_inputs() -> Any:  # what p(k) becomes where x and r are inputs
            for name, value in (("x", covariates), ("r", r)):
                if value is None:
                    raise RuntimeError(
                        f"conditional: '{name}' is an input of p(y | x, r) and must be given"
                    )
            return self._exact_kernel(covariates, self.r_standardizer(r))

        with pyro.plate("data", rows, dim=-1):
            z = self._prior_site(covariates)
            if covariates is None and not isinstance(self.k_prior, StandardNormal):
                raise ValueError("x must be given: the kernel prior p(k|x) reads it")
            infer: Any = {"given_inputs": given_inputs}
            k = pyro.sample("k", self.k_prior(covariates), infer=infer)
            if self.reads_x:
                pyro.deterministic("x", x, event_dim=1)
            else:
                x = pyro.sample("x", self._x_given(z, k), obs=x)
                covariates = self.x_standardizer(x)
            pyro.sample("r", self._r_given(k, covariates), obs=r)
            cost = self._cost(z, covariates)
            p_y = self.response.distribution(OrderEvent(cost, self.kernel_map(k)), covariates, r)
            with CostGuard():
                c = pyro.sample("c", cost)
                return pyro.sample("y", p_y.given_cost(c), obs=y)

    def guide(self, x: Tensor, r: Tensor, y: Tensor | None = None) -> None:
        """z from p(z|x) or from q, k from the exact p(k|x, r) or from q.

        A z with a finite support is summed out, so that it has no site here.
        """
        for name, value in (("x", x), ("r", r)):
            if value is None:
                raise ValueError(f"{name} must be given: the guide reads it")
        x, r, y = self._checked_inputs(x, r, y)
        with pyro.plate("data", len(x), dim=-1):
            if not self.enumerates:
                pyro.sample("z", self._guide_distribution(x, r, y))
            pyro.sample("k", self._kernel_guide_distribution(x, r, y))

    def _kernel_guide_distribution(self, x: Tensor, r: Tensor, y: Tensor | None) -> Any:
        x, r = self.x_standardizer(x), self.r_standardizer(r)
        if self.k_guide is None:
            return self._exact_kernel(x, r)
        return self.k_guide(x, r, None if y is None else self.response.standardized(y))

    def _exact_kernel(self, covariates: Tensor, r: Tensor) -> Any:
        """p(k | x, r) of the linear model, for standardised x and r."""
        prior, noise = self.k_prior(covariates), self.dr_net(covariates)
        return linear_gaussian_posterior(prior, self.loading.weight, noise, r)

    def _x_given(self, z: Tensor, k: Tensor) -> Deferred:
        return Deferred(
            lambda: in_units(self._x_standard(z, k), self.x_standardizer),
            z.shape[:-1],
            torch.Size([self.x_dim]),
        )

    def _x_standard(self, z: Tensor, k: Tensor) -> Any:
        return self.x_decoder(joined(z, k))

    def _r_given(self, k: Tensor, covariates: Tensor) -> Deferred:
        return Deferred(
            lambda: in_units(self._r_standard(k, covariates), self.r_standardizer),
            torch.broadcast_shapes(k.shape[:-1], covariates.shape[:-1]),
            torch.Size([self.r_dim]),
        )

    def _r_standard(self, k: Tensor, covariates: Tensor) -> Any:
        """W k + dr, for standardised x and r."""
        dr = self.dr_net(covariates).base_dist
        return dist.Normal(self.loading(k) + dr.loc, dr.scale).to_event(1)

    # What is trained

    def training_pair(self, objective: str = "conditional") -> TrainingPair:
        """The program and the guide of an objective.

        :raises ValueError: where an objective has no meaning for this model.
        """
        one_of("objective", objective, self.objectives)
        return implicit_pair(self, objective)

    @property
    def integrates_kernel(self) -> bool:
        """Whether E_k has a closed form under the exact p(k|x, r); for K > 1 that is correlated."""
        if self.k_dim > 1 or not self._takes_kernel_as_it_is():
            return False
        cost = one_row(self.cost_net, self.z_dim)
        kernel = dist.Normal(torch.zeros(1, 1), torch.ones(1, 1)).to_event(1)
        return integrates_over(cost, kernel)

    def _takes_kernel_as_it_is(self) -> bool:
        return isinstance(self.kernel_map, Identity) and isinstance(self.response, Binary)

    def _untrained(self, objective: str) -> tuple[str, ...]:
        # log p(y | x, r) knows W and dr through p(k | x, r).
        return () if objective == "joint" else ("x_decoder.",)

    def _revenue_given(self, r: Tensor, sites: Mapping[str, Tensor]) -> Tensor:
        k: Tensor = self.kernel_map(sites["k"])
        return k

    # Predictions

    @prediction
    def surface(
        self, x: ArrayLike, revenues: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """Predictions for every row of x at every row of revenues.

        :param x: [B, x_dim] in data units.
        :param revenues: [R, r_dim].
        :returns: [B, R].
        """
        x, revenues = self._covariates(x), self._revenues("revenues", revenues)
        # Every pair as a row of its own: another shape of the products would give other bits.
        pairs = x.repeat_interleave(len(revenues), 0), revenues.repeat(len(x), 1)
        predictions = self.predict(*pairs, num_samples=num_samples)
        return predictions.reshape(len(x), len(revenues))

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
        x = self._covariates(x)
        k = matrix("k", k, self.k_dim, "k_dim", self.device).to(self.noise.noise.dtype)
        same_rows(x=x, k=k)
        noise = self._noise(num_samples)

        def block(x: Tensor, k: Tensor) -> Tensor:
            encoded = self._encode(x, noise)
            cost = self._cost(encoded.z, encoded.covariates)
            event = OrderEvent(cost, on_grid(self.kernel_map(coarse(k))))
            return self._average(event, encoded)

        return in_blocks(block, x, k).to(noise.dtype)

    def cost(self, x: ArrayLike, *, num_samples: int | None = None) -> LatentMixture:
        """p(c | x), as of `GCM`, in the units of k (after the kernel map, if there is one).

        :raises ValueError: after "joint" training, where x depends on k as well and p(c | x) is not
            at hand.
        """
        if self.objective == "joint":
            raise ValueError(
                "cost(x) is not at hand after objective='joint', where x depends on k as well"
            )
        return super().cost(x, num_samples=num_samples)

    @prediction
    def kernel(self, x: ArrayLike, r: ArrayLike) -> Any:
        """The distribution of k given x and r that predictions average over, batch shape [B].

        After "joint" training predictions also weigh its draws by p(x|z, k).

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        """
        x, r = self._covariates(x), self._revenues("r", r)
        same_rows(x=x, r=r)
        return self._kernel_for_predictions(self.x_standardizer(x), self.r_standardizer(r))

    def _covariates(self, x: ArrayLike) -> Tensor:
        # Under no objective may values be missing.
        return matrix("x", x, self.x_dim, "x_dim", self.device)

    def _kernel_for_predictions(self, covariates: Tensor, r: Tensor) -> Any:
        if self.objective == "paper" or not self.exact_kernel:
            return self.k_guide(covariates, r, None)  # type: ignore[misc]
        return self._exact_kernel(covariates, r)

    def _event(self, encoded: Encoded, r: Tensor) -> tuple[OrderEvent, Encoded]:
        z, x, log_weights = encoded.z, encoded.covariates, encoded.log_weights
        r = self.r_standardizer(r)
        kernel, cost = self._kernel_for_predictions(x, r), self._cost(z, x)
        joint, weighted = self.objective == "joint", self.objective != "paper"
        log_w: Tensor | None = None
        averages = not joint and (self.exact_kernel or not weighted)
        if averages and self._takes_kernel_as_it_is() and integrates_over(cost, kernel):
            return OrderEvent(cost, kernel), encoded
        k = driven_draws(kernel, encoded.noise, encoded.seed)
        encoded = encoded._replace(sites={"k": k})
        if weighted and not self.exact_kernel:  # p(k | x, r) is in proportion to p(k|x) p(r|k, x)
            log_w = self.k_prior(x).log_prob(k) + self._r_standard(k, x).log_prob(r)
            log_w = log_w - kernel.log_prob(k)
        if joint:  # p(z, k | x, r) to p(z) p(x|z, k) p(k | x, r); z came from q(z|x)
            log_x = self._x_standard(z, k).log_prob(x)
            log_z = self.z_prior().log_prob(z) - self.z_guide(x).log_prob(z)  # type: ignore[misc]
            log_w = log_x + log_z if log_w is None else log_w + log_x + log_z
        if log_w is not None:
            log_w = log_w.double() if log_weights is None else log_w.double() + log_weights
            encoded = encoded._replace(log_weights=torch.log_softmax(log_w, 0))
        return OrderEvent(cost, self.kernel_map(k)), encoded
