"""The parts of a GCM whose z is one of several networks, and the defaults of both kinds."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn

from pyro_gcm._validation import one_of, positive_int
from pyro_gcm.models import build
from pyro_gcm.models.member_settings import MemberSettings
from pyro_gcm.nets import ConditionalCategorical, PiecewiseLinear, Probit
from pyro_gcm.nets.members import ConstantCategorical, MemberEncoder
from pyro_gcm.nets.parts import check_input
from pyro_gcm.nets.piecewise_linear import LearnsLast
from pyro_gcm.responses import Continuous

MEMBER_WEIGHTS = ("uniform", "learned", "conditional")


class Defaults(NamedTuple):
    """What the constructor of `GCM` takes where an argument is left out."""

    hidden: Any
    alternatives: int
    costs: int
    cost_family: str


def defaults(r_dim: int, *, of_members: bool) -> Defaults:
    """The paper's model, or that of the members."""
    return Defaults(64, 3, 3, "logistic") if of_members else Defaults(16, 1, r_dim, "normal")


def widths(hidden: Any, default: int) -> Any:
    """The hidden layers that `hidden=` names, or one of the default width."""
    named = hidden is not None and hidden != "auto"
    return build.hidden_widths(hidden) if named else default


def default_map(
    response: Any, r_dim: int, map_shape: tuple[int, ...], members: int, seed: int
) -> Any:
    """The revenue map that is used when none is named."""
    if members:
        return member_map(r_dim, map_shape, levels=not response.standardizes_revenue, seed=seed)
    return response.revenue_map if map_shape == (r_dim,) else "positive_linear"


def revenue_map(model: Any, given: Any, seed: int, r_dim: int, shape: tuple[int, ...]) -> nn.Module:
    """The map of so many revenues of a model that is named, or the default one.

    :param given: the argument of the constructor, or None.
    :param seed: of the weights of the default one of members.
    """
    response = model.response
    if given is None:
        given = default_map(response, r_dim, shape, model.encoder.members, seed)
    return build.revenue_map_part(given, r_dim, shape, levels=not response.standardizes_revenue)


def member_encoder(
    prior: Any, x_dim: int, r_dim: int, members: int, hidden: Any, seed: int
) -> MemberEncoder | None:
    """The encoder of the members where `prior=` names or is one; None for other priors."""
    if isinstance(prior, MemberEncoder):
        if prior.x_dim != x_dim:
            raise ValueError(
                f"prior must encode x_dim={x_dim} covariates, got an encoder of {prior.x_dim}"
            )
        return prior
    members = positive_int("members", members)
    if not isinstance(prior, str) or prior != "members":
        return None
    with build.seeded_weights(seed):
        if isinstance(hidden, str) and hidden == "auto":
            known = MemberSettings.for_table(1, x_dim, r_dim)  # what does not depend on the rows
            width, scaling = known.width, known.scaling
            return MemberEncoder(x_dim, members, width, dropout=None, scaling=scaling)
        plain = defaults(r_dim, of_members=True).hidden
        return MemberEncoder(x_dim, members, widths(hidden, plain), dropout=None)


def response_part(response: Any, encoder: MemberEncoder | None) -> Any:
    """The response of members, which reads z and e_z(x); that of another model as it was named.

    :raises ValueError: for a module that reads another number of columns.
    """
    if encoder is None:
        return response
    if isinstance(response, str) and response == "continuous":
        return Continuous(encoder.out_dim, (), equal_weights=True)
    net = getattr(response, "net", None)
    if isinstance(net, nn.Module):
        check_input("response", net, encoder.out_dim)
    return response


def weights_part(weights: Any, x_dim: int, encoder: MemberEncoder | None) -> Any:
    """p(z) of the members; None without them."""
    one_of("member_weights", weights, MEMBER_WEIGHTS)
    if encoder is None:
        return None
    if weights == "conditional":
        return ConditionalCategorical(x_dim, encoder.members)
    return ConstantCategorical(encoder.members, learned=weights == "learned")


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
    with build.seeded_weights(seed + 1):
        splines = PiecewiseLinear(
            r_dim,
            map_shape,
            knots=knots,
            min_rows=min_rows,
            flat=flat,
            squash=not levels,
            smallest_scale=0.05,
            ramp_weight=0.02,
        )
    return LearnsLast(Probit(), splines) if levels else splines
