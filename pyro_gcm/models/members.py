"""A GCM whose latent variable is one of several networks: an ensemble as a generative model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.validation import one_of, positive_int, seed_of
from pyro_gcm.distributions import InfiniteCost
from pyro_gcm.inference.reading import Plan
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.models.gcm import GCM, JOINT_PARTS
from pyro_gcm.models.member_settings import MemberSettings, warn_of_few
from pyro_gcm.nets import ConditionalCategorical, PiecewiseLinear, Probit, TabularFeatures
from pyro_gcm.nets.members import MemberCosts, MemberEncoder, gather_values
from pyro_gcm.nets.networks import ConstantCategorical, widths_of
from pyro_gcm.nets.parts import check_input
from pyro_gcm.nets.revenue_maps import LearnsLast
from pyro_gcm.responses import Continuous, Response
from pyro_gcm.training import TrainingDefaults

WEIGHTS = ("uniform", "learned", "conditional")


@recorded("models.MemberGCM")
class MemberGCM(GCM):
    """A GCM whose z is one of several networks (as in TabM; Gorishniy et al., ICLR 2025).

    Generative story, every name a Pyro site::

        z ~ Categorical(1/members)     # which member
        e = e_z(x)                     # its encoding of x, a deterministic site
        c ~ p(c|e, z)                  # costs, compared with the member's own increasing map of r
        y = 1 if c < h_z(r) in the product order, else 0

    z is summed out exactly. Objective "members", the default, trains each member on its own
    likelihood; `fit_members` chooses all settings from the table. All else is as for `GCM`.

    :param x_dim: number of covariates; `r_dim`: number of revenues, all increasing.
    :param response: as for `GCM`.
    :param members: their number, or a `nets.MemberEncoder`.
    :param weights: p(z): "uniform", or with objective "conditional" alone "learned" or
        "conditional" on x.
    :param hidden: width of the two layers of the encoder, or widths of any number of layers; "auto"
        is that of `MemberSettings.for_table`.
    :param alternatives: number G of alternatives, and `costs` K of each.
    :param cost_family: "logistic", "normal", "laplace", a registered class of location and scale,
        or a module that takes z and e_z(x), [..., K + H], to independent costs.
    :param revenue_map: as for `GCM`, with values [..., members, (G,) K]; by default splines, for
        each member maps of its own.
    :param p0: as for `GCM`; a module takes z and e_z(x).
    :param seed: of the initial weights; `name`: as for `GCM`.
    :raises ValueError: for sizes below 1, unknown names, or parts that do not fit together.
    """

    objective_records = {
        **GCM.objective_records,
        "members": Plan(hidden=("w",), untrained=JOINT_PARTS, averages=True),
    }

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        response: str | Response = "binary",
        members: int | MemberEncoder = 8,
        weights: str = "uniform",
        hidden: int | Sequence[int] | str = "auto",
        alternatives: int = 3,
        costs: int = 3,
        cost_family: str | type | nn.Module = "logistic",
        revenue_map: Any = None,
        p0: str | nn.Module | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        one_of("weights", weights, WEIGHTS)
        encoder = members
        if not isinstance(encoder, MemberEncoder):
            encoder = _encoder(x_dim, r_dim, encoder, hidden, seed_of(seed))
        if encoder.x_dim != x_dim:
            raise ValueError(
                f"members must encode x_dim={x_dim} covariates, got an encoder of {encoder.x_dim}"
            )
        OrderEventModel.__init__(self, x_dim, r_dim, encoder.members, name)
        self.member_weights, self.encoder, self.members = weights, encoder, encoder.members
        self.out_dim = self.cost_dim = encoder.out_dim
        shape = positive_int("alternatives", alternatives), positive_int("costs", costs)
        parts: Any = {"guide": None, "cost_family": cost_family, "p0": p0}
        with Randomness(seed_of(seed)).in_use():
            prior: Any = ConstantCategorical(self.members, learned=weights == "learned")
            if weights == "conditional":
                prior = ConditionalCategorical(x_dim, self.members)
            parts |= {"prior": prior, "revenue_map": revenue_map}
            response = _response(response, encoder)
            self.add_parts(response, _widths(hidden), shape, int(seed), **parts)
        self.add_units(self.members, {"z": self.z_dim}, int(seed))

    # The story: what is read of x, and which map r goes through, depend on the member

    def z_dist(self, x: Tensor | None) -> Any:
        """p(z), which reads nothing of x [B, x_dim] but its rows, or p(z|x)."""
        is_constant = isinstance(self.z_prior, ConstantCategorical) and x is not None
        return self.z_prior(x) if is_constant else super().z_dist(x)

    def covariates(self, z: Tensor, x: Tensor) -> Tensor:
        """z and the member's encoding e_z(x) of x [B, x_dim], [..., B, K + H]."""
        return self.encoder(z, self.x_standardizer(x))

    def c_dist(self, z: Tensor, x: Tensor) -> Any:
        """p(c|e, z), of z and e_z(x) together."""
        e = self.read_covariates(x, z)
        cost = self.cost_net(e)
        return cost if self.infinite_net is None else InfiniteCost(cost, self.infinite_net(e))

    def conditional_hidden(self, hidden: Any) -> Any:
        """None: what a network of `covariates` reads has been through some."""
        return ()

    def map_shape(self, cost_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a mapped row of revenues: a value for each cost of each member."""
        return (self.members, *cost_shape)

    def cost_part(self, family: type[Any], event_shape: tuple[int, ...], hidden: Any) -> nn.Module:
        """p(c | e_z(x), z)."""
        return MemberCosts(family, self.members, self.out_dim - self.members, event_shape)

    def mapped(self, r: Tensor, covariates: Tensor | None = None) -> Tensor:
        """h_z(r) by the map of the member of each draw, or h(r) of all members."""
        mapped = super().mapped(r)
        if covariates is None:
            return mapped
        return gather_values(mapped.movedim(1, 0), covariates[..., : self.members])

    def make_map(self, given: Any, seed: int, r_dim: int, shape: tuple[int, ...]) -> nn.Module:
        """The map that is named, or splines for each member."""
        if given is None and r_dim:
            levels = self.response.r_dist() is not None
            given = member_map(r_dim, shape, levels=levels, seed=seed)
        return super().make_map(given, seed, r_dim, shape)

    def learn_features(self, x: Tensor) -> None:
        """Learn the features of the encoder."""
        self.encoder.learn(x, self.x_standardizer)

    # Training

    @property
    def default_objective(self) -> str:
        """ "members" with equal weights, else "conditional"."""
        return "members" if self.member_weights == "uniform" else "conditional"

    def check_objective(self, objective: str) -> None:
        """Refuse "members" with weights that are learned."""
        super().check_objective(objective)
        if objective == "members" and self.member_weights != "uniform":
            raise ValueError(
                "objective='members' needs uniform weights: under weights that are learned the "
                "mean of log-likelihoods collapses onto one member; use objective='conditional'"
            )

    def training_defaults(self, rows: int) -> TrainingDefaults:
        """Options of `fit` where they are left out, which depend on the table."""
        return self._settings(rows).training(self)

    @property
    def draws_equally(self) -> bool:
        """Whether p(z) is 1 / members, for a `z_dist` that is not overridden."""
        return self.member_weights == "uniform" and not self.overrides("z_dist")

    @property
    def can_leave_out(self) -> bool:
        """Whether members that leave out a row do not learn it from the others."""
        return self.encoder.first.r is not None

    def adapt(self, rows: int, *, epochs: int | None) -> None:
        """The dropout, where none was named."""
        if epochs is None:
            warn_of_few(rows)
        self.encoder.choose_dropout(self._settings(rows).dropout)

    def _settings(self, rows: int) -> MemberSettings:
        return MemberSettings.for_response(self.response, rows, self.x_dim, self.r_dim)


def _encoder(x_dim: int, r_dim: int, members: Any, hidden: Any, seed: int) -> MemberEncoder:
    members = positive_int("members", members)
    with Randomness(seed).in_use():
        if isinstance(hidden, str) and hidden == "auto":
            known = MemberSettings.for_table(1, x_dim, r_dim)  # what does not depend on the rows
            return MemberEncoder(x_dim, members, known.width, dropout=None)
        return MemberEncoder(x_dim, members, _widths(hidden), dropout=None)


def _widths(hidden: Any) -> Any:
    return 64 if hidden == "auto" else widths_of(hidden)


def _response(response: str | Response, encoder: MemberEncoder) -> str | Response:
    """The response, which reads z and e_z(x).

    :raises ValueError: for a module that reads another number of columns.
    """
    if isinstance(response, str) and response == "continuous":
        return Continuous(encoder.out_dim, (), equal_weights=True)
    net = getattr(response, "net", None)
    if isinstance(net, nn.Module):
        check_input("response", net, encoder.out_dim)
    return response


def member_map(
    r_dim: int,
    map_shape: tuple[int, ...],
    *,
    levels: bool = False,
    knots: int = 24,
    min_rows: int = 20,
    flat: bool = False,
    seed: int = 0,
) -> nn.Module:
    """The increasing maps of all members: squashed revenues and splines of a few ramps.

    :param levels: whether the revenue is a quantile level, whose probit the splines are of.
    :param knots, min_rows, flat: of `PiecewiseLinear`.
    :param seed: of the initial weights, which are others than those of the encoder.
    """
    options: Any = {"knots": knots, "min_rows": min_rows, "flat": flat, "squash": not levels}
    options |= {"smallest_scale": 0.05, "ramp_weight": 0.02}
    with Randomness(seed + 1).in_use():
        splines = PiecewiseLinear(r_dim, map_shape, **options)
    return LearnsLast(Probit(), splines) if levels else splines


def build_members(
    settings: MemberSettings,
    x_dim: int,
    r_dim: int,
    *,
    response: str | Response = "binary",
    p0: Any = None,
    ordered: Sequence[Sequence[int]] = (),
    seed: int = 0,
) -> MemberGCM:
    """An untrained GCM of members.

    :param response, p0: as `GCM` takes them.
    :param ordered: groups of columns of x for the levels of ordered variables (`TabularFeatures`).
    """
    with Randomness(seed).in_use():
        features = TabularFeatures(
            x_dim, settings.bins, steps=settings.steps if settings.bins else 0.0, ordered=ordered
        )
        encoder = MemberEncoder(
            x_dim,
            settings.members,
            settings.width,
            dropout=settings.dropout,
            features=features,
            scaling=settings.scaling,
        )
        shape = (settings.alternatives, settings.costs)
        maps = member_map(
            r_dim,
            (encoder.members, *(shape[1:] if settings.alternatives == 1 else shape)),
            levels=response == "quantile",
            knots=settings.knots,
            min_rows=settings.min_rows,
            flat=settings.flat,
            seed=seed,
        )
        part: Any = response
        if response == "continuous" and not settings.equal_weights:
            part = Continuous(encoder.out_dim, ())
    return MemberGCM(
        x_dim,
        r_dim,
        members=encoder,
        response=part,
        alternatives=settings.alternatives,
        costs=settings.costs,
        revenue_map=maps,
        p0=p0,
        seed=seed,
    )
