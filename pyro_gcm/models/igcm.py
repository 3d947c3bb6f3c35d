"""The implicit generative cost model (paper, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._utils.evaluating import evaluating
from pyro_gcm._utils.options import module_or, seed_of
from pyro_gcm._utils.process_state import Randomness
from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm._utils.validation import ArrayLike, matrix, positive_int, same_rows
from pyro_gcm.distributions import (
    LatentMixture,
    OrderEvent,
    coordinates,
    integrates_over,
    is_independent_normal,
    linear_gaussian_posterior,
)
from pyro_gcm.distributions.base import checks
from pyro_gcm.distributions.event_planes import coarse, on_grid
from pyro_gcm.distributions.event_sides import sides
from pyro_gcm.inference.reading import Objective, OfReader, Plan, Reader, in_units
from pyro_gcm.models import build
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.models.predictions import prediction
from pyro_gcm.nets import Conditional, PositiveLinear, StandardNormal
from pyro_gcm.nets.conditional import joined
from pyro_gcm.nets.parts import check_guide, check_shape, one_row
from pyro_gcm.prediction.base_samples import in_blocks
from pyro_gcm.prediction.predicted import Dry, Predicted
from pyro_gcm.responses import Response

_objective = partial(Objective, untrained=("x_decoder.",), generates_revenue=True)


@recorded("models.IGCM")
class IGCM(Posteriors):
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
    :param response: "binary", "continuous" or a `responses.Response`.
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

    objective_records = {
        "conditional": _objective("conditional"),
        "response_revenue": _objective("response_revenue", ("x",)),
        "joint": _objective("joint", (), untrained=()),
        "paper": _objective("paper", ("x",)),
    }
    objectives = tuple(objective_records)

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
        cost_shape = build.cost_shape(alternatives, self.k_dim if costs is None else costs)
        parts: Any = {"response": response, "prior": prior, "guide": guide}
        with Randomness(seed).in_use():
            self.add_costs(cost_shape, hidden, **parts, cost_family=cost_family, p0=p0)
            if self.response.not_for_igcm:
                named, why = self.response.named, self.response.not_for_igcm
                raise ValueError(f"response={named!r} needs GCM: {why}, r = W k + dr")
            if kernel_map is None:
                kernel_map = "identity" if cost_shape == (self.k_dim,) else "positive_linear"
            self.kernel_map = build.revenue_map_part(
                kernel_map, self.k_dim, cost_shape, "kernel_map"
            )
            self.k_prior = build.prior_part(
                "kernel_prior", kernel_prior, self.x_dim, self.k_dim, hidden, ["conditional"]
            )
            self.k_guide = build.kernel_guide_part(
                kernel_guide, self.x_dim, self.r_dim, self.k_dim, hidden
            )
            check_shape("kernel_prior", self.k_prior, self.x_dim, (self.k_dim,))
            if isinstance(kernel_guide, nn.Module):
                check_guide("kernel_guide", kernel_guide, (self.x_dim, self.r_dim), (self.k_dim,))
            self._check_kernel()
            self.loading = PositiveLinear(self.k_dim, (self.r_dim,))
            noise = dist.Normal, self.x_dim, (self.r_dim,), hidden
            self.dr_net = module_or("dr_net", dr_net, Conditional, *noise)
            if not is_independent_normal(one_row(self.dr_net, self.x_dim)):
                raise ValueError("dr_net must give a normal p(dr|x) with independent columns")
            self.x_decoder: Any = build.x_decoder_part(
                x_decoder, self.z_prior, self.z_dim + self.k_dim, self.x_dim, hidden
            )
        self.add_units(num_samples, {"z": self.z_dim, "k": self.k_dim}, seed)

    def _check_kernel(self) -> None:
        """Refuse a prior and a guide of k that do not fit together."""
        p_k = one_row(self.k_prior, self.x_dim)
        told_anew = self.overrides("k_dist", "r_dist", "standard_r_dist")
        #: Whether p(k|x, r) is known.
        self.exact_kernel = is_independent_normal(p_k) and (
            not told_anew or bool(self.overrides("k_posterior"))
        )
        self.k_guide_reads_outcome = build.reads_outcome(self.k_guide, self.x_dim, self.r_dim)
        if self.k_guide is None and not self.exact_kernel:
            raise ValueError(
                "kernel_guide='exact' needs a normal kernel_prior with independent coordinates, "
                f"got {type(coordinates(p_k)).__name__}, and k_dist and r_dist of IGCM "
                "itself, or a k_posterior that goes with yours: pass kernel_guide='amortised'"
            )
        if not self.exact_kernel and self.k_guide_reads_outcome:
            raise ValueError(
                "kernel_guide reads y, and with a kernel_prior that is not normal a prediction "
                "draws k from the guide: there it must be q(k|x, r), such as 'amortised'"
            )

    def story(self, sample: Any, x: Any, r: Any, y: Any, c: Any = None) -> Any:
        """The lines of the paper's figure; e is x standardised."""
        z = sample("z", lambda: self.z_dist(x))
        k = sample("k", lambda: self.k_dist(x))
        x = sample("x", lambda: self.x_dist(z, k, x), obs=x)
        e = self.encoded(sample, z, x)
        r = sample("r", lambda: self.r_dist(k, e), obs=r)
        c = sample("c", lambda: self.c_dist(z, e), obs=c)
        return sample("y", lambda: self.y_dist(c, e, k, r), obs=y)

    def guide_story(self, sample: Any, x: Tensor, r: Tensor, y: Tensor | None) -> None:
        """z from q(z|x, r, y), and k from q(k|x, r, y) or the exact p(k|x, r)."""
        super().guide_story(sample, x, r, y)
        sample("k", lambda: self.k_guide_dist(x, r, y), exact=self.k_guide is None)

    def make_plan(self, objective: str) -> Plan:
        """With x and r as inputs, k is drawn from its exact p(k|x, r), or integrated out."""
        plan = super().make_plan(objective)
        if self.exact_kernel and self.overrides("story"):
            self._check_kernel_lines()
        if objective != "conditional":
            return plan
        left = ("c", "k") if self.k_guide is None and self.integrates_kernel else ("c",)
        return replace(plan, exact={"k": self._k_exact}, left=left)

    def make_prediction_plan(self) -> Plan:
        """k from p(k|x, r), exact where it is known; after objective "paper" from q(k|x, r)."""
        plan, joint = super().make_plan(self.objective), self.objective == "joint"
        proposals: Any = {}
        if not (self.reads_x or self.z_guide is None):
            proposals["z"] = lambda read: self.z_guide_dist(read.x, None, None)
        plan = replace(plan, proposals=proposals, unweighted=() if joint else ("z",))
        if self.objective != "paper" and not self.exact_kernel:
            proposals["k"] = self._k_proposed
            return replace(plan, given=plan.given[:1])
        p_k = self._k_proposed if self.objective == "paper" else self._k_exact
        left = ("c", "k") if not joint and self._integrates(p_k) else ("c",)
        return replace(plan, given=("r",) if joint else ("x", "r"), exact={"k": p_k}, left=left)

    def _check_kernel_lines(self) -> None:
        """Refuse a story whose lines of k and r are others than those that p(k|x, r) is of."""
        like: Any = {"dtype": self.dtype, "device": self.device}
        x, r = torch.zeros(1, self.x_dim, **like), torch.zeros(1, self.r_dim, **like)
        read = Dry(self, Plan(given=()), x, r)
        with torch.no_grad(), Randomness(0, self.device).in_use(), evaluating(self):
            read.shared = self.shared(read.share)
            self.story(read, x, r, None)
            k = read.values["k"]
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

    def check_objective(self, objective: str) -> None:
        """Refuse what has no meaning for these priors and guides."""
        if objective == "conditional" and not self.exact_kernel:
            raise ValueError(
                "objective='conditional' draws k from p(k|x, r), which is known for a normal "
                "kernel_prior with independent coordinates: use 'response_revenue'"
            )
        super().check_objective(objective)
        if objective == "joint" and not isinstance(self.k_prior, StandardNormal):
            raise ValueError(
                "objective='joint' needs kernel_prior='standard': with p(k|x), p(k|x) p(x|z, k) is "
                "not a density of x, and maximising it means nothing"
            )
        if objective == "paper" and self.enumerates:
            raise ValueError("objective='paper' averages over draws of z: not with a categorical z")
        if objective == "paper" and (self.k_guide is None or self.k_guide_reads_outcome):
            raise ValueError(
                "objective='paper' needs a q(k|x, r) of its own, which predictions use as well: "
                "pass kernel_guide='amortised'"
            )

    # The factors of the story, besides z and c

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

    def y_dist(self, cost: Any, covariates: Tensor, k: Any, r: Tensor) -> Any:
        """p(y | z, x, k): what the response makes of the order event between cost and kernel.

        :param cost: the costs as the story's site gave them, or their distribution.
        """
        p_c, c = sides(cost)
        event = OrderEvent(p_c, self.kernel_map(k), validate_args=checks())
        p_y = self.response.distribution(event, covariates, r)
        return p_y if c is None else p_y.given_cost(c)

    # The kernel in closed form

    @property
    def kernel_enters_as_it_is(self) -> bool:
        """Whether y is the event that the costs stay below k itself."""
        return isinstance(self.kernel_map, nn.Identity) and self.response.is_event

    @property
    def integrates_kernel(self) -> bool:
        """Whether E_k has a closed form under the exact p(k|x, r); for K > 1 that is correlated."""
        return self._integrates(self._k_exact)

    @torch.no_grad()
    def _integrates(self, p_k: OfReader) -> bool:
        """Whether the order event has a closed form for this distribution of k."""
        if not self.kernel_enters_as_it_is or self.overrides("story", "c_dist", "y_dist"):
            return False
        like: Any = {"dtype": self.dtype, "device": self.device}
        x, r = torch.zeros(1, self.x_dim, **like), torch.zeros(1, self.r_dim, **like)
        cost = one_row(self.cost_net, self.z_dim)
        with evaluating(self):
            return integrates_over(cost, p_k(Reader(self, Plan(), x, r)))

    # Predictions

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
        noise = self.noise(num_samples)
        plan = replace(self.prediction_plan, given=("x", "r"), unweighted=("z",))

        def block(x: Tensor, k: Tensor) -> Tensor:
            reader = Predicted(self, plan, noise, until="c")
            draws, e = reader.read(x, None), self.x_standardizer(x)
            mapped = on_grid(self.kernel_map(coarse(k)))
            p_y = self.response.distribution(OrderEvent(draws.left["c"], mapped), e, k)
            return draws.mean(self.response.predict(p_y))

        dtype = self.response.prediction_dtype(self.dtype)
        return in_blocks(block, x, k, draws=noise.count).to(dtype)

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
        rows, plan = self.rows(x, r), self.prediction_plan
        of_k = plan.exact.get("k") or plan.proposals["k"]
        return of_k(Reader(self, plan, rows.x, rows.r))
