"""The generative cost model (paper, section 3.3)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.infer.util import is_validation_enabled
from torch import Tensor, nn

from pyro_gcm._validation import ArrayLike, matrix, one_of, positive_int, same_rows, vector
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.deferred import Deferred
from pyro_gcm.distributions.equal_mixture import EqualMixture
from pyro_gcm.distributions.families import resolve_cost_family
from pyro_gcm.inference.common_noise import (
    BLOCK_ROWS,
    CommonNoise,
    blocks,
    coarse,
    in_blocks,
    latent_draws,
    pairwise_mean,
)
from pyro_gcm.inference.cost_guard import CostGuard
from pyro_gcm.inference.parameter_store import announce
from pyro_gcm.models.parts import guide_part, prior_part, response_part, revenue_map_part
from pyro_gcm.models.responses import Response
from pyro_gcm.nets import Conditional, Identity, Standardizer, StandardNormal

_names = itertools.count()


class GCM(nn.Module):
    """Strictly monotone p(y | x, r): y is the event that a latent cost stays below the revenue.

    Generative story, every name a Pyro site::

        z ~ p(z) or p(z|x)      # what the row is like
        x ~ p(x|z)              # covariates (with p(z|x) they are an input)
        w ~ N(0, I)             # what else sets the revenue
        r ~ p(r|w, x)           # revenues, in which y is to increase
        c ~ p(c|z)              # costs, independent of r given x
        y = 1 if c < r in the product order, else 0

    The sites x, r and y are in the units of the data, c in the units of the standardised revenues
    (after the revenue map, if there is one). `model` is the explicit program; train
    `inference.conditional(model)`, as `fit` does.

    :param x_dim: number of covariates.
    :param r_dim: number of revenues m, all increasing.
    :param response: "binary", "continuous", "quantile" or a `models.responses.Response`.
    :param prior: "conditional" learns p(z|x); "standard" is N(0, I); or a module that takes
        standardised x [B, x_dim] to a distribution of z.
    :param guide: "prior" (z drawn from p(z|x)), "amortised" (q(z|x)), or a module that takes
        (x, r, y), standardised, to a distribution of z. By default "prior", and "amortised" with
        prior "standard".
    :param z_dim: dimension D of z.
    :param hidden: width of the two tanh layers of every network, or the widths of any number.
    :param alternatives: number G of alternatives; y = 1 if the costs of at least one stay below its
        revenues. One is the paper's model, which cannot express that one revenue makes up for
        another; more can.
    :param costs: number K of costs an alternative has; one for each revenue by default.
    :param cost_family: "normal", "logistic", "laplace" or a registered distribution class.
    :param revenue_map: "identity", "positive_linear", "probit" or a module that takes standardised
        revenues [..., m] to [..., (G,) K], increasing. By default the identity for one alternative
        with a cost for each revenue (for quantile levels the probit), positive linear otherwise.
    :param num_samples: draws of z that a prediction averages over; a power of two is best.
    :param seed: seed of the initial weights and of the prediction noise.
    :param name: prefix of the parameters in Pyro's store; unique by default, so that two models
        never share parameters there.
    :raises ValueError: for sizes below 1, unknown names, or parts that do not fit together.
    """

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        response: str | Response = "binary",
        prior: str | nn.Module = "conditional",
        guide: str | nn.Module | None = None,
        z_dim: int = 4,
        hidden: int | Sequence[int] = 16,
        alternatives: int = 1,
        costs: int | None = None,
        cost_family: str | type = "normal",
        revenue_map: str | nn.Module | None = None,
        num_samples: int = 128,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.name = name or f"gcm{next(_names)}"
        self.x_dim = positive_int("x_dim", x_dim)
        self.r_dim = positive_int("r_dim", r_dim)
        self.z_dim = positive_int("z_dim", z_dim)
        self.seed = seed = positive_int("seed", seed, minimum=0)
        if isinstance(hidden, Sequence) and not isinstance(hidden, str):
            hidden = [positive_int("hidden", width) for width in hidden]
        else:
            hidden = positive_int("hidden", hidden)
        alternatives = positive_int("alternatives", alternatives)
        costs = self.r_dim if costs is None else positive_int("costs", costs)
        num_samples = positive_int("num_samples", num_samples)
        self.cost_shape = (costs,) if alternatives == 1 else (alternatives, costs)
        plain = self.cost_shape == (self.r_dim,)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.response = response_part(response, self.x_dim, hidden)
            self.z_prior = prior_part(prior, self.x_dim, self.z_dim, hidden)
            self.reads_x = not isinstance(self.z_prior, StandardNormal)
            self.z_guide = guide_part(guide, self.reads_x, self.x_dim, self.z_dim, hidden)
            self.cost_net = Conditional(
                resolve_cost_family(cost_family), self.z_dim, self.cost_shape, hidden
            )
            default_map = self.response.revenue_map if plain else "positive_linear"
            self.revenue_map = revenue_map_part(
                revenue_map or default_map, self.r_dim, self.cost_shape, plain
            )
            self.w_prior = StandardNormal(self.r_dim)
            self.r_decoder = Conditional(
                dist.Normal, self.r_dim + self.x_dim, (self.r_dim,), hidden
            )
            if not self.reads_x:
                self.x_decoder = Conditional(dist.Normal, self.z_dim, (self.x_dim,), hidden)
        self.x_standardizer = Standardizer(self.x_dim)
        self.r_standardizer = Standardizer(self.r_dim)
        self.noise = CommonNoise(num_samples, self.z_dim, seed)

    def __getstate__(self) -> dict[str, Any]:
        # Pyro's store leaves weak references on parameters, and sets them again when it needs them.
        for parameter in self.parameters():
            parameter.__dict__.pop("unconstrained", None)
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy has parameters of its own, so it needs a name of its own in Pyro's store.
        super().__setstate__(state)
        self.name = f"{self.name}.copy{next(_names)}"

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.noise.noise.device

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
        if x is None and self.reads_x:
            raise ValueError("x must be given: the prior p(z|x) reads it")
        x, r, y = self._program_inputs(x, r, y)
        announce(self.name, self)
        rows = next((len(value) for value in (x, r) if value is not None), 0)
        rows = rows or positive_int("size", size)
        with pyro.plate("data", rows, dim=-1):
            if self.reads_x:
                covariates = self.x_standardizer(x)
                z = pyro.sample("z", self.z_prior(covariates))
                x = pyro.deterministic("x", x, event_dim=1)
            else:
                z = pyro.sample("z", self.z_prior())
                x = pyro.sample("x", self._x_given(z), obs=x)
                covariates = self.x_standardizer(x)
            w = pyro.sample("w", self.w_prior())
            r = pyro.sample("r", self._r_given(w, covariates), obs=r)
            cost = self.cost_net(z)
            p_y = self.response.distribution(self._event(cost, r), covariates, r)
            with CostGuard():
                c = pyro.sample("c", cost)
                return pyro.sample("y", p_y.given_cost(c), obs=y)

    def guide(
        self,
        x: Tensor | None = None,
        r: Tensor | None = None,
        y: Tensor | None = None,
        *,
        size: int = 1,
    ) -> Tensor:
        """z from the prior p(z|x), from q(z|x), or from the guide that was passed, [B, D]."""
        if x is None:
            raise ValueError("x must be given: the guide reads it")
        x, r, y = self._program_inputs(x, r, y)
        announce(self.name, self)
        with pyro.plate("data", len(x), dim=-1):
            return pyro.sample("z", self._guide_distribution(x, r, y))

    def _guide_distribution(self, x: Tensor, r: Tensor | None, y: Tensor | None) -> Any:
        x = self.x_standardizer(x)
        if self.z_guide is None:
            return self.z_prior(x)
        r = None if r is None else self.r_standardizer(r)
        y = None if y is None else self.response.standardized(y)
        return self.z_guide(x, r, y)

    def _x_given(self, z: Tensor) -> Deferred:
        def build() -> Any:
            return _in_units(self.x_decoder(z), self.x_standardizer)

        return Deferred(build, z.shape[:-1], torch.Size([self.x_dim]))

    def _r_given(self, w: Tensor, covariates: Tensor) -> Any:
        revenue = self.response.revenue()
        if revenue is not None:
            return revenue
        batch = torch.broadcast_shapes(w.shape[:-1], covariates.shape[:-1])

        def build() -> Any:
            context = torch.cat([w.expand(*batch, -1), covariates.expand(*batch, -1)], dim=-1)
            return _in_units(self.r_decoder(context), self.r_standardizer)

        return Deferred(build, batch, torch.Size([self.r_dim]))

    def _event(self, cost: Any, r: Tensor) -> OrderEvent:
        return OrderEvent(cost, self.revenue_map(self.r_standardizer(r)))

    def _program_inputs(
        self, x: Tensor | None, r: Tensor | None, y: Tensor | None
    ) -> tuple[Any, Any, Any]:
        """Checked tensors; the checks that read values run while Pyro's validation is on."""
        if not is_validation_enabled():
            return x, r, y
        given = {}
        if x is not None:
            given["x"] = matrix("x", x, self.x_dim, "x_dim", self.device)
        if r is not None:
            given["r"] = matrix("r", r, self.r_dim, "r_dim", self.device)
            self.response.check_revenue(given["r"])
        if y is not None:
            given["y"] = vector("y", y, self.device)
            self.response.check_outcome(given["y"])
        same_rows(**given)
        return given.get("x"), given.get("r"), given.get("y")

    def trained_parameters(self, objective: str = "conditional") -> dict[str, nn.Parameter]:
        """The parameters that an objective trains, by name; the others it leaves as they are."""
        one_of("objective", objective, ["conditional"])
        generative = ("x_decoder.", "r_decoder.")
        return {
            name: parameter
            for name, parameter in self.named_parameters()
            if not name.startswith(generative) and parameter.requires_grad
        }

    # Predictions

    @torch.no_grad()
    def predict(self, x: ArrayLike, r: ArrayLike, *, num_samples: int | None = None) -> Tensor:
        """Prediction for every row: Pr(y = 1), the mean of y, or the quantile, by response.

        Increasing in r, across calls and batch sizes: see `inference.common_noise`.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param num_samples: draws of z, the model's own number by default.
        :returns: [B].
        """
        x, r = self._covariates(x), self._revenues("r", r)
        same_rows(x=x, r=r)
        noise = self._noise(num_samples)

        def block(x: Tensor, r: Tensor) -> Tensor:
            x, cost = self._encode(x, noise)
            return pairwise_mean(self.response.predict(OrderEvent(cost, self._mapped(r)), x))

        return in_blocks(block, x, r).to(noise.dtype)

    @torch.no_grad()
    def surface(
        self, x: ArrayLike, revenues: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """Predictions for every row of x at every row of revenues; x is encoded once.

        :param x: [B, x_dim] in data units.
        :param revenues: [R, r_dim].
        :returns: [B, R].
        """
        x, revenues = self._covariates(x), self._revenues("revenues", revenues)
        noise = self._noise(num_samples)
        mapped = in_blocks(self._mapped, revenues)

        def block(x: Tensor) -> Tensor:
            x, cost = self._encode(x, noise, dims=1)  # batch [N, b, 1]
            parts = [
                pairwise_mean(self.response.predict(OrderEvent(cost, part), x))
                for part in mapped.split(BLOCK_ROWS // 8)
            ]
            return torch.cat(parts, dim=-1)

        return in_blocks(block, x).to(noise.dtype)

    @torch.no_grad()
    def cost(self, x: ArrayLike, *, num_samples: int | None = None) -> EqualMixture:
        """p(c | x), with `cdf`, `sample`, `mean` and `log_prob`.

        In the units of the revenues if there is one cost for each of them: then `cdf(r)` is the
        prediction of a binary response. Behind a revenue map, in the map's units.
        """
        x = self._covariates(x)
        noise = self._noise(num_samples)
        z = torch.cat([self._latent(block, noise) for block in blocks(x)], dim=1)[:, : len(x)]
        if isinstance(self.revenue_map, Identity):
            units = self.r_standardizer.loc, self.r_standardizer.scale
        else:
            units = noise.new_zeros(self.cost_shape), noise.new_ones(self.cost_shape)
        return EqualMixture(self.cost_net(z), *units)

    def _covariates(self, x: ArrayLike) -> Tensor:
        return matrix("x", x, self.x_dim, "x_dim", self.device)

    def _revenues(self, name: str, r: ArrayLike) -> Tensor:
        r = matrix(name, r, self.r_dim, "r_dim", self.device)
        self.response.check_revenue(r)
        return r

    def _mapped(self, r: Tensor) -> Tensor:
        """h(r) for predictions, on a grid of 2^-40, next to which later rounding is small."""
        mapped = self.revenue_map(coarse(self.r_standardizer(r)))
        return coarse(torch.round(mapped * 2.0**40) / 2.0**40)

    def _noise(self, num_samples: int | None) -> Tensor:
        if num_samples is not None:
            positive_int("num_samples", num_samples)
        noise: Tensor = self.noise(num_samples)
        return noise

    def _latent(self, x: Tensor, noise: Tensor) -> Tensor:
        """Draws of z for a block of rows, [N, b, D], from a distribution that reads x alone."""
        x = self.x_standardizer(x)
        # With prior N(0, I) it is the guide that has seen x (paper, section 3.3).
        source: Any = self.z_prior if self.reads_x else self.z_guide
        z = source(x) if self.reads_x else source(x, None, None)
        return latent_draws(z, noise, self.seed)

    def _encode(self, x: Tensor, noise: Tensor, dims: int = 0) -> tuple[Tensor, Any]:
        """Standardised x and p(c|z) of a block, with `dims` dimensions of size 1 for revenues."""
        z = self._latent(x, noise)
        x = self.x_standardizer(x)
        for _ in range(dims):
            z, x = z.unsqueeze(-2), x.unsqueeze(-2)
        return x, self.cost_net(z)


def _in_units(standard: Any, standardizer: Standardizer) -> Any:
    """A distribution of standardised columns in the units of the data."""
    affine = dist.transforms.AffineTransform(standardizer.loc, standardizer.scale, event_dim=1)
    return dist.TransformedDistribution(standard, [affine])
