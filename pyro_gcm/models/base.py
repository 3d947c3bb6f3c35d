"""The base of GCM and IGCM: sizes, parts, units, and the distributions of z and of the costs."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pyro_gcm._utils.moments import KnownMoments
from pyro_gcm._utils.validation import columns_of_units, positive_int
from pyro_gcm._utils.warn import warn_user
from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.base import checks
from pyro_gcm.distributions.event_sides import sides
from pyro_gcm.distributions.families import resolve_cost_family
from pyro_gcm.inference.reading import Objective
from pyro_gcm.models import build
from pyro_gcm.nets import Standardizer, StandardNormal
from pyro_gcm.nets.conditional import Conditional
from pyro_gcm.nets.parts import check_shape
from pyro_gcm.prediction.base_samples import BaseSamples
from pyro_gcm.responses import Response
from pyro_gcm.training import TrainingDefaults

_names = itertools.count()


class Parts(nn.Module):
    """The latent z, the costs that it sets, and y: what `GCM` and `IGCM` have in common."""

    response: Response
    objective_records: ClassVar[dict[str, Objective]]
    #: Whether there is one cost in the units of each revenue.
    costs_have_units = False
    #: Number of members that z chooses from; 0 where it does not.
    members = 0
    #: How they are weighed, if it does.
    member_weights = ""
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

    def add_costs(
        self, cost_shape: tuple[int, ...], hidden: Any, response: str | Response, **parts: Any
    ) -> None:
        """Build y given the event, z, and c given z, as the constructor of a model does first.

        :param parts: prior, guide, cost_family and p0 of the constructor.
        """
        prior, guide, p0 = parts["prior"], parts["guide"], parts["p0"]
        self.cost_shape = cost_shape
        columns, beyond = self.out_dim, self.conditional_hidden(hidden)
        self.response = build.response_part(response, columns, beyond)
        if not self.response.moves_revenue:  # whose axis is a revenue of its own
            positive_int("r_dim", self.r_dim)
        self.z_prior = build.prior_part("prior", prior, self.x_dim, self.z_dim, hidden)
        self.reads_x = not isinstance(self.z_prior, StandardNormal)
        self.enumerates = build.has_finite_support(self.z_prior, self.x_dim)
        sizes = self.x_dim, self.r_dim, self.z_dim
        self.z_guide = build.guide_part(guide, self.z_prior, *sizes, hidden)
        self.guide_reads_outcome = build.reads_outcome(self.z_guide, self.x_dim, self.r_dim)
        family = parts["cost_family"]
        if not isinstance(family, nn.Module):
            family = self.cost_part(resolve_cost_family(family), cost_shape, hidden)
        self.cost_net = family
        self.infinite_net = build.infinite_part(p0, columns, cost_shape[:-1], beyond)
        self._starts_p0 = isinstance(p0, str)
        self.response.prepare(self, cost_shape)
        costs = check_shape("cost_family", self.cost_net, self.cost_dim, cost_shape)
        try:
            OrderEvent(costs, torch.zeros(1))
        except (TypeError, ValueError) as error:
            raise ValueError(f"cost_family must give costs for an order event: {error}") from error
        if self.infinite_net is not None:
            check_shape("p0", self.infinite_net, columns, cost_shape[:-1], drawn=False)

    def add_units(self, num_samples: int, sizes: dict[str, int], seed: int) -> None:
        """Build the standardisers and the base samples.

        :param sizes: number of coordinates of each latent site that base samples drive.
        """
        self.x_standardizer = Standardizer(self.x_dim)
        self.r_standardizer = Standardizer(self.r_dim)
        ends = list(itertools.accumulate(sizes.values()))
        self.places = dict(zip(sizes, [0, *ends], strict=False))
        self.base_samples = BaseSamples(positive_int("num_samples", num_samples), ends[-1], seed)

    @property
    def seed(self) -> int:
        """Seed of the prediction noise, a part of the state."""
        return self.base_samples.seed

    # The factors of the story that the models share

    def z_dist(self, x: Tensor | None) -> Any:
        """p(z|x) for x [B, x_dim] in data units, or p(z)."""
        if not self.reads_x:
            return self.z_prior()
        if x is None:
            raise ValueError("x must be given: the prior p(z|x) reads it")
        return self.z_prior(self.x_standardizer(x))

    def z_guide_dist(self, x: Tensor | None, r: Tensor | None, y: Tensor | None) -> Any:
        """q(z|x, r, y), or p(z|x) where the guide is the prior; arguments in data units."""
        if x is None:
            raise ValueError("x must be given: the guide reads it")
        if self.z_guide is None:
            return self.z_dist(x)
        x = self.x_standardizer(x)
        r = None if r is None else self.r_standardizer(r)
        y = None if y is None else self.response.standardized(y).to(x.dtype)
        return self.z_guide(x, r, y)

    def covariates(self, z: Tensor, x: Tensor) -> Tensor:
        """Return x [B, x_dim] as the story reads it after z: standardised."""
        return self.x_standardizer(x)

    def encoded(self, sample: Any, z: Tensor, x: Tensor) -> Tensor:
        """`covariates` as a line of the story; of a member, which is z, it is a site in Pyro."""
        line = sample.deterministic if self.members else sample.note
        return line("e", lambda: self.covariates(z, x))

    def c_dist(self, z: Tensor, covariates: Tensor) -> Any:
        """p(c|z), or p(c|z, x) where a cost may be infinite or z is a member."""
        cost = self.cost_net(z)
        if self.infinite_net is None:
            return cost
        return InfiniteCost(cost, self.infinite_net(covariates))

    def _outcome_dist(self, cost: Any, revenue: Any, covariates: Tensor, r: Tensor) -> Any:
        """p(y | z, x, r): what the response makes of the order event between cost and revenue.

        :param cost: the costs as the story's site gave them, or their distribution.
        :param revenue: what they are compared with; `r`: the revenues in data units.
        """
        p_c, c = sides(cost)
        event = OrderEvent(p_c, revenue, validate_args=checks())
        p_y = self.response.distribution(event, covariates, r)
        return p_y if c is None else p_y.given_cost(c)

    def mapped(self, r: Tensor, covariates: Tensor | None = None) -> Tensor:
        """h(r), of revenues in data units: what costs in their own units are compared with.

        :param covariates: e of the rows, which choose the map where each member has its own.
        """
        raise NotImplementedError

    # What depends on whether z is a member

    def conditional_hidden(self, hidden: Any) -> Any:
        """Hidden layers of a network of `covariates`; those of members have been through some."""
        return () if self.members else hidden

    def cost_part(self, family: type[Any], event_shape: tuple[int, ...], hidden: Any) -> nn.Module:
        """A network of the costs of a family."""
        return Conditional(family, self.cost_dim, event_shape, hidden)

    def map_shape(self, cost_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a mapped row of revenues: a value for each cost of each member."""
        return (self.members, *cost_shape) if self.members else cost_shape

    def learn_features(self, x: Tensor) -> None:
        """Learn from rows [n, x_dim] what standardisation does not."""

    # Training

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
        (x, r), y = columns_of_units(self, x, r), self.response.outcome(y)
        self.x_standardizer.learn(x, known.get("x"))
        self.learn_features(x.to(self.device))
        if self.response.standardizes_revenue:
            self.r_standardizer.learn(r, known.get("r"))
        self.response.learn_unit(y)
        if self._starts_p0:
            never = self.response.initial_cured_fraction(y)
            build.start_infinite(self.infinite_net, never, self.cost_shape[:-1])
        self.is_trained = True

    def warn_once(self, message: str) -> None:
        """Warn the user, once in the life of this model for each message."""
        if message not in self._warned:
            self._warned.add(message)
            warn_user(message)

    # Where the parameters are, and copies

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.base_samples.samples.device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of predictions."""
        return self.base_samples.samples.dtype

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

    def __getstate__(self) -> dict[str, Any]:
        # Pyro's store leaves weak references on parameters, and sets them again when it needs them.
        for parameter in self.parameters():
            parameter.__dict__.pop("unconstrained", None)
        state = self.__dict__.copy()
        state.pop("_kept", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy has parameters of its own, so it needs a name of its own in Pyro's store.
        super().__setstate__(state)
        self.name = f"{self.name}.copy{next(_names)}"
