"""A GCM whose latent variable is one of several networks: an ensemble as a generative model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.validation import seed_of
from pyro_gcm.distributions import InfiniteCost
from pyro_gcm.inference.reading import Plan
from pyro_gcm.models import build
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.models.gcm import GCM, JOINT_PARTS
from pyro_gcm.models.member_settings import MemberSettings, warn_of_few
from pyro_gcm.nets import PiecewiseLinear, Probit, TabularFeatures
from pyro_gcm.nets.members import MemberEncoder, gather_values
from pyro_gcm.nets.networks import ConstantCategorical, widths_of
from pyro_gcm.nets.revenue_maps import LearnsLast
from pyro_gcm.responses import Continuous, Response
from pyro_gcm.training import TrainingDefaults


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
    default_objective = "members"
    #: Whether p(z) is that of the constructor.
    equal_weights = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        response: str | Response = "binary",
        members: int | MemberEncoder = 8,
        hidden: int | Sequence[int] | str = "auto",
        alternatives: int = 3,
        costs: int = 3,
        cost_family: str | type | nn.Module = "logistic",
        revenue_map: Any = None,
        p0: str | nn.Module | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        encoder: Any = members
        sizes: Any = 64 if hidden == "auto" else hidden
        widths, seed = widths_of(sizes), seed_of(seed)
        if not isinstance(encoder, MemberEncoder):
            known = MemberSettings.for_table(1, x_dim, r_dim)  # what does not depend on the rows
            width = known.width if hidden == "auto" else widths
            with Randomness(seed).in_use():
                encoder = MemberEncoder(x_dim, encoder, width, dropout=None)
        if encoder.x_dim != x_dim:
            raise ValueError(
                f"members must encode x_dim={x_dim} covariates, got an encoder of {encoder.x_dim}"
            )
        OrderEventModel.__init__(self, x_dim, r_dim, encoder.members, name)
        self.encoder, self.members = encoder, encoder.members
        self.out_dim = self.cost_dim = encoder.out_dim
        shape = build.cost_shape(alternatives, costs)
        parts: Any = {"prior": ConstantCategorical(self.members), "guide": None, "p0": p0}
        parts |= {"cost_family": cost_family, "revenue_map": revenue_map}
        with Randomness(seed).in_use():
            if response == "continuous":
                response = Continuous(self.out_dim, (), equal_weights=True)
            self.add_parts(response, widths, shape, seed, self.members, **parts)

    # The story: what is read of x, and which map r goes through, depend on the member

    def covariates(self, z: Tensor, x: Tensor) -> Tensor:
        """z and the member's encoding e_z(x) of x [B, x_dim], [..., B, K + H]."""
        return self.encoder(z, self.x_standardizer(x))

    def c_dist(self, z: Tensor, x: Tensor) -> Any:
        """p(c|e, z), of z and e_z(x) together."""
        e = self.read_covariates(x, z)
        cost = self.cost_net(e)
        return cost if self.infinite_net is None else InfiniteCost(cost, self.infinite_net(e))

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

    def training_defaults(self, rows: int) -> TrainingDefaults:
        """Options of `fit` where they are left out, which depend on the table."""
        return self._settings(rows).training(self)

    @property
    def draws_equally(self) -> bool:
        """Whether p(z) is 1 / members, for a `z_dist` that is not overridden."""
        return self.equal_weights and not self.overrides("z_dist")

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
