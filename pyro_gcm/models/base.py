"""The base of the models: the parts and units that they share, their training and their state."""

from __future__ import annotations

import itertools
import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from pyro_gcm._utils.standardizer import KnownMoments
from pyro_gcm._utils.validation import matrix, one_of, positive_int, warn_user
from pyro_gcm.distributions import CostUnits, OrderEvent
from pyro_gcm.distributions.families import resolve_cost_family
from pyro_gcm.inference.elbo import TrainingPair, training_pair
from pyro_gcm.models import build
from pyro_gcm.models.story import Story
from pyro_gcm.nets import Conditional, Standardizer, StandardNormal
from pyro_gcm.nets.members import MemberCosts
from pyro_gcm.nets.networks import with_even_rows
from pyro_gcm.prediction.base_samples import BaseSamples
from pyro_gcm.responses import RESPONSES, Response
from pyro_gcm.training import TrainingDefaults

#: Attributes that no story asks for.
_STATE = ("training", "is_trained", "training_summary", "example")
_names = itertools.count()


class OrderEventModel(Story):
    """Base of the models: a story with its parts and units, and what a subclass may change."""

    # What `build` makes.
    cost_shape: tuple[int, ...]
    starts_p0: bool
    places: dict[str, int]
    #: What the costs are in the units of: "data", where there is one cost for each revenue, or what
    #: they are compared with.
    units_of_costs = "mapped r"
    #: The objective of `fit` by default.
    default_objective = "conditional"
    #: Number of members that z chooses from; 0 where it does not.
    members = 0
    #: How `fit` trained it last, in plain data, if it did.
    training_summary: dict[str, Any] | None = None

    def __init__(self, x_dim: int, r_dim: int, z_dim: int, name: str | None) -> None:
        super().__init__()
        self._own_name = name
        self.name = name or f"{type(self).__name__.lower()}{next(_names)}"
        self.x_dim = positive_int("x_dim", x_dim)
        self.r_dim = positive_int("r_dim", r_dim, minimum=0)
        self.z_dim = positive_int("z_dim", z_dim)
        #: Columns of `covariates`, and of what sets the costs.
        self.out_dim, self.cost_dim = self.x_dim, self.z_dim
        self.is_trained = False
        self._warned: set[str] = set()
        self.shared_guide = nn.ParameterDict()
        self.register_buffer("_objective", torch.tensor(0))

    # Its parts

    def add_costs(
        self,
        cost_shape: tuple[int, ...],
        hidden: Any,
        response: str | Response,
        *,
        prior: Any,
        guide: Any,
        cost_family: Any,
        p0: Any,
    ) -> None:
        """Make y given the event, z, and c given z, as the constructor does first."""
        # What a network of `covariates` reads has been through layers of the members' encoder.
        beyond = () if self.members else hidden
        if isinstance(response, Response):
            cost_shape = (*cost_shape[:-1], response.costs_of(cost_shape[-1]))
        else:
            one_of("response", response, list(RESPONSES))
            named: Any = RESPONSES[response]
            response = cast(Response, named(self.out_dim, beyond))
        self.cost_shape, self.response = cost_shape, response
        self.response.check_r_dim(self.r_dim)
        for part in (response, *getattr(response, "parts", ())):
            if isinstance(net := getattr(part, "net", None), nn.Module):
                build.check_input("response", net, self.out_dim)
        self.z_prior = build.prior_part("prior", prior, self.x_dim, self.z_dim, hidden)
        self.reads_x = not isinstance(self.z_prior, StandardNormal)
        p_z = build.check_input("prior", self.z_prior, self.x_dim)
        self.enumerates = bool(p_z.has_enumerate_support)
        self.z_guide = build.guide_part(guide, self, hidden)
        if not isinstance(cost_family, nn.Module):
            family = resolve_cost_family(cost_family)
            if self.members:
                encoded = self.out_dim - self.members
                cost_family = MemberCosts(family, self.members, encoded, cost_shape)
            else:
                cost_family = Conditional(family, self.cost_dim, cost_shape, hidden)
        self.cost_net = cost_family
        self.infinite_net = build.infinite_part(p0, self.out_dim, cost_shape[:-1], beyond)
        self.starts_p0 = isinstance(p0, str)
        self.response.prepare(self, cost_shape)
        costs = build.check_shape("cost_family", self.cost_net, self.cost_dim, cost_shape)
        try:
            OrderEvent(costs, torch.zeros(1))
        except (TypeError, ValueError) as error:
            raise ValueError(f"cost_family must give costs for an order event: {error}") from error
        if self.infinite_net is not None:
            build.check_shape("p0", self.infinite_net, self.out_dim, cost_shape[:-1], drawn=False)

    def add_units(self, num_samples: int, sizes: dict[str, int], seed: int) -> None:
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

    def learn_features(self, x: Tensor) -> None:
        """Learn from rows [n, x_dim] what standardisation does not."""

    @property
    def costs_have_units(self) -> bool:
        """Whether there is one cost for each revenue, in its units."""
        return self.units_of_costs == "data"

    def cost_units(self, r: Tensor) -> CostUnits | None:
        """The units of site c at revenues [B, r_dim]; None where they are those of the story."""
        return None

    def check_objective(self, objective: str) -> None:
        """Raise ValueError if the objective does not apply to this model."""
        if objective == "joint" and self.reads_x:
            raise ValueError(
                "objective='joint' needs prior='standard': with p(z|x) the program has no density "
                "of x, and must not be maximised"
            )

    def training_pair(self, objective: str = "conditional") -> TrainingPair:
        """The program and the guide that one of `objectives` trains.

        :raises ValueError: if the objective does not apply to this model.
        """
        one_of("objective", objective, self.objectives)
        self.check_objective(objective)
        return training_pair(self, objective)

    def trained_parameters(self, objective: str = "conditional") -> dict[str, nn.Parameter]:
        """The parameters that an objective trains, by name; the others it leaves as they are."""
        one_of("objective", objective, self.objectives)
        untrained = self.objective_records[objective].untrained
        trainable = ((n, p) for n, p in self.named_parameters() if p.requires_grad)
        return {n: p for n, p in trainable if not n.startswith(untrained)}

    def training_defaults(self, rows: int) -> TrainingDefaults:
        """Options of `fit` where they are left out, for a number of rows."""
        return TrainingDefaults()

    def adapt(self, rows: int, *, epochs: int | None) -> None:
        """Choose what was left to the number of training rows, as `fit` asks for, with `epochs`."""

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
        self.learn_features(x.to(self.device))
        if self.response.r_dist() is None:
            self.r_standardizer.learn(r, known.get("r"))
        self.response.learn_unit(y)
        never = self.response.initial_cured_fraction(y) if self.starts_p0 else None
        if never is not None:  # that all alternatives are infinite
            each = never ** (1.0 / math.prod(self.cost_shape[:-1]))
            parts = self.infinite_net.named_parameters()
            *_, last = (p for name, p in parts if name.endswith(("logits", "bias")))
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

    def saved_attributes(self) -> dict[str, Any]:
        """Return the state that `pyro_gcm.save` keeps besides arguments and tensors."""
        name, training = self._own_name and self.name, self.training_summary
        return {"is_trained": self.is_trained, "name": name, "training": training}

    def restore_attributes(self, saved: dict[str, Any]) -> None:
        """Restore the result of `saved_attributes`; a name that was not chosen stays unique."""
        summary = saved["training"] or {}
        for names in summary.get("columns", {}).values():
            if names is not None and not all(isinstance(name, str) for name in names):
                raise ValueError(f"it must have names of columns, or None, got {names!r}")
        self.is_trained, self.training_summary = saved["is_trained"], saved["training"]
        self.name = saved["name"] or self.name

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """Return the module's state, which includes the guide of sites that all rows share."""
        self.shared_sites()
        return super().state_dict(*args, **options)

    def _load_from_state_dict(self, *args: Any) -> None:
        self.shared_sites()  # whose guide has parameters
        super()._load_from_state_dict(*args)
        self.__dict__.pop("_kept", None)
        self.is_trained = True

    def __getstate__(self) -> dict[str, Any]:
        # Pyro's store leaves weak references on parameters, and sets them again when it needs them.
        for parameter in self.parameters():
            parameter.__dict__.pop("unconstrained", None)
        state = self.__dict__.copy()
        state.pop("_kept", None)
        state.pop("example", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy has parameters of its own, so it needs a name of its own in Pyro's store.
        super().__setstate__(state)
        self.name = f"{self.name}.copy{next(_names)}"
