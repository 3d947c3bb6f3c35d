"""What GCM and IGCM share: the latent z, the costs it sets, units, checks and predictions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyro
import torch
from pyro.infer.util import is_validation_enabled
from torch import Tensor, nn

from pyro_gcm._validation import ArrayLike, matrix, one_of, positive_int, same_rows, vector
from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.latent_mixture import LatentMixture
from pyro_gcm.inference.common_noise import (
    CommonNoise,
    blocks,
    in_blocks,
    latent_draws,
    pairwise_mean,
)
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.models.parts import (
    cost_part,
    guide_part,
    infinite_part,
    prior_part,
    response_part,
)
from pyro_gcm.models.responses import Continuous, Response
from pyro_gcm.nets import Standardizer, StandardNormal

_names = itertools.count()


class Encoded(NamedTuple):
    """Draws of the latent variables for a block of b rows.

    z [N, b, D], standardised covariates [(N,) b, x_dim], the draws' log-weights [N, b] (None where
    they are equal), the base noise [N, b or 1, E] that z did not use, and the rows [b] whose
    covariates had missing values.
    """

    z: Tensor
    covariates: Tensor
    log_weights: Tensor | None
    noise: Tensor
    incomplete: Tensor | None = None

    def against_revenues(self) -> Encoded:
        """The same with a dimension for revenues after that of the rows."""
        log_weights = self.log_weights
        return Encoded(
            self.z.unsqueeze(-2),
            self.covariates.unsqueeze(-2),
            None if log_weights is None else log_weights.unsqueeze(-1),
            self.noise.unsqueeze(-2),
        )


class OrderEventModel(nn.Module):
    """Base of `GCM` and `IGCM`, which add what the costs are compared with."""

    #: What a model can be trained for; the first is the default of `fit`.
    objectives: tuple[str, ...]
    _objective: Tensor

    def __init__(self, x_dim: int, r_dim: int, z_dim: int, seed: int, name: str | None) -> None:
        super().__init__()
        self.name = name or f"{type(self).__name__.lower()}{next(_names)}"
        self.x_dim = positive_int("x_dim", x_dim)
        self.r_dim = positive_int("r_dim", r_dim)
        self.z_dim = positive_int("z_dim", z_dim)
        self.seed = positive_int("seed", seed, minimum=0)
        self.register_buffer("_objective", torch.tensor(0))

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Initial weights from the model's own seed."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            yield

    def _add_costs(
        self,
        response: str | Response,
        prior: str | nn.Module,
        guide: str | nn.Module | None,
        hidden: Any,
        alternatives: int,
        costs: int,
        cost_family: str | type | nn.Module,
        p0: str | nn.Module | None,
    ) -> None:
        """y given the event, z, and c given z."""
        self.cost_shape = (costs,) if alternatives == 1 else (alternatives, costs)
        self.response = response_part(response, self.x_dim, hidden)
        self.z_prior = prior_part(prior, self.x_dim, self.z_dim, hidden)
        self.reads_x = not isinstance(self.z_prior, StandardNormal)
        self.enumerates = bool(getattr(self.z_prior, "enumerates", False))
        self.z_guide = guide_part(guide, self.z_prior, self.x_dim, self.r_dim, self.z_dim, hidden)
        self.cost_net = cost_part(cost_family, self.z_dim, self.cost_shape, hidden)
        self.infinite_net = infinite_part(p0, self.x_dim, alternatives, hidden)

    def _add_units(self, num_samples: int, noise_dim: int) -> None:
        self.x_standardizer = Standardizer(self.x_dim)
        self.r_standardizer = Standardizer(self.r_dim)
        self.noise = CommonNoise(positive_int("num_samples", num_samples), noise_dim, self.seed)

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

    @property
    def objective(self) -> str:
        """What the model was trained for last; predictions follow it."""
        return self.objectives[int(self._objective)]

    @objective.setter
    def objective(self, objective: str) -> None:
        one_of("objective", objective, self.objectives)
        self._objective.fill_(self.objectives.index(objective))

    def training_pair(self, objective: str) -> TrainingPair:
        """The program and the guide that an objective trains."""
        raise NotImplementedError

    def _untrained(self, objective: str) -> tuple[str, ...]:
        """Prefixes of the parameters that an objective leaves as they are."""
        raise NotImplementedError

    def trained_parameters(self, objective: str | None = None) -> dict[str, nn.Parameter]:
        """The parameters that an objective trains, by name; the others it leaves as they are."""
        objective = objective or self.objectives[0]
        one_of("objective", objective, self.objectives)
        untrained = self._untrained(objective)
        return {
            name: parameter
            for name, parameter in self.named_parameters()
            if not name.startswith(untrained) and parameter.requires_grad
        }

    # What the programs share

    def _prior_site(self, covariates: Tensor | None) -> Tensor:
        """z ~ p(z|x) or p(z)."""
        infer: Any = {"enumerate": "parallel"} if self.enumerates else {}
        z: Tensor = pyro.sample("z", self.z_prior(covariates), infer=infer)
        return z

    def _guide_distribution(self, x: Tensor, r: Tensor | None, y: Tensor | None) -> Any:
        x = self.x_standardizer(x)
        if self.z_guide is None:
            return self.z_prior(x)
        r = None if r is None else self.r_standardizer(r)
        y = None if y is None else self.response.standardized(y)
        return self.z_guide(x, r, y)

    def _cost(self, z: Tensor, covariates: Tensor) -> Any:
        """p(c|z), or p(c|z, x) where a cost may be infinite."""
        cost = self.cost_net(z)
        if self.infinite_net is None:
            return cost
        return InfiniteCost(cost, self.infinite_net(covariates))

    def _checked_inputs(
        self, x: Tensor | None, r: Tensor | None, y: Tensor | None, *, missing: bool
    ) -> tuple[Any, Any, Any]:
        """Checked tensors; the checks that read values run while Pyro's validation is on."""
        if not is_validation_enabled():
            return x, r, y
        given = {}
        if x is not None:
            given["x"] = matrix("x", x, self.x_dim, "x_dim", self.device, missing=missing)
        if r is not None:
            given["r"] = matrix("r", r, self.r_dim, "r_dim", self.device, missing=missing)
            self.response.check_revenue(given["r"])
        if y is not None:
            given["y"] = vector("y", y, self.device)
            self.response.check_outcome(given["y"])
        same_rows(**given)
        return given.get("x"), given.get("r"), given.get("y")

    # Predictions

    @torch.no_grad()
    def predict(self, x: ArrayLike, r: ArrayLike, *, num_samples: int | None = None) -> Tensor:
        """Prediction for every row: Pr(y = 1), the mean of y, or the quantile, by response.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param num_samples: draws of z, the model's own number by default.
        :returns: [B].
        """
        x, r = self._covariates(x), self._revenues("r", r)
        same_rows(x=x, r=r)
        noise = self._noise(num_samples)

        def block(x: Tensor, r: Tensor) -> Tensor:
            event, encoded = self._event(self._encode(x, noise), r)
            return self._average(event, encoded)

        return in_blocks(block, x, r).to(noise.dtype)

    @torch.no_grad()
    def log_prob(
        self, x: ArrayLike, r: ArrayLike, y: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """log p(y | x, r) of every row in nats, a density in the units of y if it is continuous.

        The average over z is inside the logarithm, with the same draws as `predict`.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param y: [B].
        :returns: [B].
        """
        x, r = self._covariates(x), self._revenues("r", r)
        y = vector("y", y, self.device)
        self.response.check_outcome(y)
        same_rows(x=x, r=r, y=y)
        noise = self._noise(num_samples)

        def block(x: Tensor, r: Tensor, y: Tensor) -> Tensor:
            event, encoded = self._event(self._encode(x, noise), r)
            p_y = self.response.distribution(event, encoded.covariates, r)
            log_p = p_y.log_prob(y.squeeze(-1)).double()
            if encoded.log_weights is None:
                return torch.logsumexp(log_p, 0) - math.log(len(log_p))
            return torch.logsumexp(log_p + encoded.log_weights, 0)

        return in_blocks(block, x, r, y.unsqueeze(-1)).to(noise.dtype)

    @torch.no_grad()
    def cdf(
        self, x: ArrayLike, r: ArrayLike, y: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """Pr(Y <= y | x, r) of every row, for a continuous response; uniform if it is calibrated.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param y: [B].
        :returns: [B].
        :raises ValueError: for a response without a distribution function.
        """
        if not isinstance(self.response, Continuous):
            raise ValueError(
                f"cdf needs response='continuous', got {type(self.response).__name__.lower()!r}"
            )
        x, r, y = self._covariates(x), self._revenues("r", r), vector("y", y, self.device)
        same_rows(x=x, r=r, y=y)
        noise = self._noise(num_samples)

        def block(x: Tensor, r: Tensor, y: Tensor) -> Tensor:
            event, encoded = self._event(self._encode(x, noise), r)
            p_y = self.response.distribution(event, encoded.covariates, r)
            return self._mean(p_y.cdf(y.squeeze(-1)), encoded)

        return in_blocks(block, x, r, y.unsqueeze(-1)).to(noise.dtype)

    @torch.no_grad()
    def cost(self, x: ArrayLike, *, num_samples: int | None = None) -> LatentMixture:
        """p(c | x), with `cdf`, `sample`, `mean` and `log_prob`.

        In the units of what the costs are compared with: see the class.
        """
        x = self._covariates(x)
        noise = self._noise(num_samples)
        parts = [self._encode(block, noise) for block in blocks(x)]

        def joined(column: str, dim: int) -> Tensor:
            return torch.cat([getattr(part, column) for part in parts], dim).narrow(dim, 0, len(x))

        cost = self._cost(joined("z", -2), joined("covariates", -2))
        weighted = parts[0].log_weights is not None
        log_weights = joined("log_weights", -1) if weighted else None
        return LatentMixture(cost, *self._cost_units(), log_weights)

    def _cost_units(self) -> tuple[Tensor, Tensor]:
        """Shift and factor from the costs' own units."""
        like = self.noise.noise
        return like.new_zeros(self.cost_shape), like.new_ones(self.cost_shape)

    def _event(self, encoded: Encoded, r: Tensor) -> tuple[OrderEvent, Encoded]:
        """The event for a block of rows of r, and the draws with what r says of them."""
        raise NotImplementedError

    def _average(self, event: OrderEvent, encoded: Encoded) -> Tensor:
        return self._mean(self.response.predict(event, encoded.covariates), encoded)

    def _mean(self, values: Tensor, encoded: Encoded) -> Tensor:
        weights = None if encoded.log_weights is None else encoded.log_weights.exp()
        return pairwise_mean(values, weights)

    def _covariates(self, x: ArrayLike) -> Tensor:
        missing = self.objective == "joint"
        return matrix("x", x, self.x_dim, "x_dim", self.device, missing=missing)

    def _revenues(self, name: str, r: ArrayLike, *, missing: bool = False) -> Tensor:
        r = matrix(name, r, self.r_dim, "r_dim", self.device, missing=missing)
        self.response.check_revenue(r)
        return r

    def _noise(self, num_samples: int | None) -> Tensor:
        if num_samples is not None:
            positive_int("num_samples", num_samples)
        noise: Tensor = self.noise(num_samples)
        return noise

    def _encode(self, x: Tensor, noise: Tensor) -> Encoded:
        """Draws of z for a block of rows, from a distribution that reads x alone."""
        covariates = self.x_standardizer(x)
        # With prior N(0, I) it is the guide that has seen x (paper, section 3.3).
        if self.reads_x:
            source = self.z_prior(covariates)
        else:
            source = self.z_guide(covariates, None, None)  # type: ignore[misc]
        z, weights = latent_draws(source, noise[:, : self.z_dim], self.seed)
        if len(z) != len(noise) and noise.shape[1] > self.z_dim:
            # A finite support, or equal shares for the parts of a mixture: as many draws of the
            # other variables as before.
            repeats = max(1, len(noise) // len(z))
            noise = self._noise(len(z) * repeats)
            z = z.repeat(repeats, 1, 1)
            weights = None if weights is None else weights.repeat(repeats, 1)
        log_weights = None
        if weights is not None:
            log_weights = torch.log_softmax(weights.double().log(), 0)
        return Encoded(z, covariates, log_weights, noise[:, None, self.z_dim :])


def hidden_widths(hidden: int | Sequence[int]) -> Any:
    """The checked `hidden=` argument: one width or several."""
    if isinstance(hidden, Sequence) and not isinstance(hidden, str):
        return [positive_int("hidden", width) for width in hidden]
    return positive_int("hidden", hidden)
