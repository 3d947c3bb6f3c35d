"""The parts and units of a model, which its constructor makes and its training rows set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from pyro_gcm._utils.standardizer import KnownMoments
from pyro_gcm._utils.validation import matrix, one_of, positive_int, shown, warn_user
from pyro_gcm.distributions import CostUnits, OrderEvent
from pyro_gcm.distributions.families import base_distribution, resolve_cost_family
from pyro_gcm.distributions.half_costs import HALVES, HalfCost
from pyro_gcm.models.build import check_part, guide_part, infinite_part, prior_part
from pyro_gcm.nets import Conditional, Standardizer, StandardNormal
from pyro_gcm.nets.members import MemberCosts
from pyro_gcm.nets.networks import with_even_rows
from pyro_gcm.prediction.base_samples import BaseSamples
from pyro_gcm.responses import RESPONSES, Binary, Response

#: Attributes that no story asks for.
_STATE = ("training", "is_trained", "training_summary", "example")
#: Of models without a name, in one process.
NUMBERS = itertools.count()


class Parts(nn.Module):
    """The parts and units of a model."""

    #: What the costs are in the units of: "data", where there is one cost for each revenue, or what
    #: they are compared with.
    units_of_costs = "mapped r"
    #: Indices of the revenues with diminishing returns.
    concave: tuple[int, ...] = ()
    #: Number of members that z chooses from; 0 where it does not.
    members = 0
    #: A few rows x and r that were seen, in data units, to read a story with.
    example: tuple[Tensor, Tensor] | None = None
    #: How `fit` trained it last, in plain data, if it did.
    training_summary: dict[str, Any] | None = None
    _objective: Tensor

    def __init__(self, x_dim: int, r_dim: int, z_dim: int, name: str | None) -> None:
        super().__init__()
        self._own_name = name
        self.name = name or f"{type(self).__name__.lower()}{next(NUMBERS)}"
        self.x_dim = positive_int("x_dim", x_dim)
        self.r_dim = positive_int("r_dim", r_dim, minimum=0)
        self.z_dim = positive_int("z_dim", z_dim)
        #: Columns of `covariates`, and of what sets the costs.
        self.out_dim, self.cost_dim = self.x_dim, self.z_dim
        self.is_trained = False
        self._warned: set[str] = set()
        self.shared_guide = nn.ParameterDict()
        self.register_buffer("_objective", torch.tensor(0))

    def extra_repr(self) -> str:
        """Sizes, prior, guide and response, for `repr`."""
        guide = type(self.z_prior if self.z_guide is None else self.z_guide).__name__
        sizes = f"x_dim={self.x_dim}, r_dim={self.r_dim}, z_dim={self.z_dim}"
        prior = f"prior={type(self.z_prior).__name__}, guide={guide}"
        return f"{sizes}, {prior}, response={self.response.named!r}, costs={self.cost_shape}"

    def _set_concave(self, concave: Any) -> None:
        """Check and keep the indices of the revenues with diminishing returns, before all parts."""
        listed: list[Any] = [*concave] if isinstance(concave, Iterable) else [concave]
        wrong = not isinstance(concave, Iterable) or {*listed} - {*range(self.r_dim)}
        if wrong or len({*listed}) < len(listed):
            raise ValueError(
                f"concave must be a list of different indices of the {self.r_dim} revenues, got "
                f"{shown(concave)}"
            )
        self.concave = tuple(listed)

    def _add_costs(
        self,
        cost_shape: tuple[int, ...],
        hidden: Any,
        response: str | Response,
        prior: Any,
        guide: Any,
        cost_family: Any,
        p0: Any,
    ) -> None:
        """Make y given the event, z, and c given z, as the constructor does first."""
        # What a network of `covariates` reads has been through layers of the members' encoder.
        beyond = () if self.members else hidden
        if not isinstance(response, Response):
            one_of("response", response, list(RESPONSES))
            named: Any = RESPONSES[response]
            response = cast(Response, named(self.out_dim, beyond))
        cost_shape = (*cost_shape[:-1], response.costs_of(cost_shape[-1]))
        self.cost_shape, self.response = cost_shape, response
        self.response.check_r_dim(self.r_dim)
        for part in (response, *getattr(response, "parts", ())):
            if isinstance(net := getattr(part, "net", None), nn.Module):
                check_part("response", net, self.out_dim)
        self.z_prior = prior_part("prior", prior, self.x_dim, self.z_dim, hidden)
        self.reads_x = not isinstance(self.z_prior, StandardNormal)
        self.enumerates = bool(check_part("prior", self.z_prior, self.x_dim).has_enumerate_support)
        self.z_guide = guide_part(guide, self, hidden)
        if self.concave and not isinstance(self.response, Binary):
            raise ValueError(
                f"concave needs response='binary', got {self.response.named!r}: only the "
                "probability of the event has diminishing returns"
            )
        self.response.concave = self.concave
        if not isinstance(cost_family, nn.Module):
            family = resolve_cost_family(self.response.cost_family or cost_family)
            if issubclass(family, HalfCost) and not self.concave:
                raise ValueError(
                    f"cost_family={shown(cost_family)} needs concave: its costs have a lowest "
                    "value, below which a revenue could make the event impossible"
                )
            if self.concave and not issubclass(family, HalfCost):
                if family not in HALVES:
                    raise ValueError(
                        "cost_family must be 'normal', 'logistic' or 'laplace' with concave, whose "
                        f"halves have falling densities, got {shown(cost_family)}"
                    )
                family = HALVES[family]
            if self.members:
                encoded = self.out_dim - self.members
                cost_family = MemberCosts(family, self.members, encoded, cost_shape)
            else:
                cost_family = Conditional(family, self.cost_dim, cost_shape, hidden)
        self.cost_net = cost_family
        self.infinite_net: Any = infinite_part(p0, self.out_dim, cost_shape[:-1], beyond)
        self.starts_p0 = isinstance(p0, str)
        self.response.prepare(self, cost_shape)
        costs = check_part("cost_family", self.cost_net, self.cost_dim, cost_shape)
        try:
            OrderEvent(costs, torch.zeros(1))
            wanted = HalfCost if self.concave else self.response.cost_family
            if wanted and not isinstance(base_distribution(costs), wanted):
                raise TypeError(f"they must be {wanted.__name__}")
        except (TypeError, ValueError) as error:
            raise ValueError(f"cost_family must give costs for an order event: {error}") from error
        if self.infinite_net is not None:
            check_part("p0", self.infinite_net, self.out_dim, cost_shape[:-1], drawn=False)

    def _add_units(self, num_samples: int, sizes: dict[str, int], seed: int) -> None:
        """Make its standardisers and base samples.

        :param sizes: number of coordinates of each latent site that base samples drive.
        """
        self.x_standardizer = Standardizer(self.x_dim)
        self.r_standardizer = Standardizer(self.r_dim)
        ends = list(itertools.accumulate(sizes.values()))
        self.places = dict(zip(sizes, [0, *ends], strict=False))
        self.base_samples = BaseSamples(positive_int("num_samples", num_samples), ends[-1], seed)

    def map_shape(self, cost_shape: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return the shape of a mapped row of revenues: a value for each cost (of each member)."""
        shape = self.cost_shape if cost_shape is None else cost_shape
        return (self.members, *shape) if self.members else shape

    def _learn_features(self, x: Tensor) -> None:
        """Learn from rows [n, x_dim] what standardisation does not."""

    @property
    def costs_have_units(self) -> bool:
        """Whether there is one cost for each revenue, in its units."""
        return self.units_of_costs == "data"

    def cost_units(self, r: Tensor) -> CostUnits | None:
        """The units of site c at revenues [B, r_dim]; None where they are those of the story."""
        return None

    def learn_units(self, x: Tensor, r: Tensor, y: Tensor, moments: KnownMoments = None) -> None:
        """Take location and scale of x, r and a continuous y from rows, as `fit` does first.

        To be called before `pyro.infer.SVI` trains on data that are not standardised.
        :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n], on any device.
        :param moments: those of "x" and "r", where the rows are only a sample of the data.
        """
        known = moments or {}
        x, r = matrix("x", x, self.x_dim, "x_dim"), matrix("r", r, self.r_dim, "r_dim")
        y = self.response.outcome(y)
        self.x_standardizer.learn(x, known.get("x"))
        self._learn_features(x.to(self.device))
        if self.response.r_dist() is None:
            self.r_standardizer.learn(r, known.get("r"))
        self.response.learn_unit(y)
        never = self.response.initial_cured_fraction(y) if self.starts_p0 else None
        if never is not None:  # that all alternatives are infinite
            each = never ** (1.0 / math.prod(self.cost_shape[:-1]))
            named = self.infinite_net.named_parameters()
            *_, last = (p for name, p in named if name.endswith(("logits", "bias")))
            nn.init.constant_(last, torch.tensor(each, dtype=torch.float64).logit().item())
        self.is_trained = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _STATE:  # a story may ask for it
            self.__dict__.pop("_kept", None)
        if isinstance(value, nn.Module):
            with_even_rows(value)  # parts of the user, too
        super().__setattr__(name, value)

    def warn_once(self, message: str) -> None:
        """Warn the user, once in the life of this model for each message."""
        if message not in self._warned:
            self._warned.add(message)
            warn_user(message)

    @property
    def seed(self) -> int:
        """Seed of the prediction noise, a part of the state."""
        return self.base_samples.seed

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.base_samples.samples.device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of predictions."""
        return self.base_samples.samples.dtype
