"""Networks that return a distribution, guides of them, and checks of parts on rows of zeros."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pyro.poutine as poutine
import torch
from torch import Tensor, nn
from torch.distributions import constraints, transform_to

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import broadcast_shapes, kind, positive_int
from pyro_gcm.nets.products import Linear

#: Width of two hidden layers, or the widths of any number of layers.
Hidden = int | Sequence[int]

_MIN_SCALE = 0.05


def mlp(in_dim: int, out_dim: int, hidden: Hidden) -> nn.Sequential:
    """MLP with tanh activations; the default architecture is that of the paper, section 4.1.

    :param hidden: width of two hidden layers, or the widths of any number of layers; () for none.
    """
    widths = [positive_int("in_dim", in_dim, minimum=0), *widths_of(hidden)]
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers, Linear(widths[-1], out_dim))


@torch.no_grad()
def start_at_zero(network: nn.Module) -> None:
    """Set the last layer of a network to zero, or those of a flow's transforms."""
    for part in network.modules():
        if isinstance(part, nn.Sequential):
            for parameter in part[-1].parameters():
                parameter.zero_()


def widths_of(hidden: Hidden) -> list[int]:
    """The widths of hidden layers from the width of two, or from those of any number of them."""
    listed = isinstance(hidden, Sequence) and not isinstance(hidden, str)
    widths: Any = hidden if listed else (hidden, hidden)
    return [positive_int("hidden", width) for width in widths]


def joined(*columns: Tensor) -> Tensor:
    """Concatenate contexts [..., d_i] whose batch shapes broadcast to [..., sum of d_i]."""
    batch = broadcast_shapes(*(part.shape[:-1] for part in columns))
    return torch.cat([part.expand(*batch, -1) for part in columns], dim=-1)


def positive(raw: Tensor, at_zero: float = 1.0) -> Tensor:
    """Softplus with a minimum of 0.05, shifted so that raw = 0 gives `at_zero`.

    The minimum keeps single-sample bounds finite at the start of training.
    """
    shift = math.log(math.expm1(at_zero - _MIN_SCALE))
    return _MIN_SCALE + nn.functional.softplus(raw + shift)


@recorded("nets.Conditional")
class Conditional(nn.Module):
    """A network from a context [..., in_dim] to a distribution with event shape `event_shape`.

    One MLP computes all parameters of `family`: real ones are its outputs, positive ones go through
    `positive`, and others through torch's `transform_to` of their constraint. Prior, guide, decoder
    and cost networks all have this interface, so any module with it can replace them.

    :param family: a univariate distribution class.
    :param in_dim: number of columns of the context.
    :param event_shape: event shape of the distribution.
    :param hidden: width of two hidden layers, or the widths of any number of layers.
    """

    def __init__(
        self,
        family: type[Any],
        in_dim: int,
        event_shape: Sequence[int],
        hidden: Hidden = 16,
    ) -> None:
        super().__init__()
        if not hasattr(family, "arg_constraints"):
            raise TypeError(f"family must be a distribution class, got {kind(family)}")
        self.family: Any = family
        self.event_shape = tuple(event_shape)
        parameters = len(self.family.arg_constraints)
        self.net = mlp(in_dim, parameters * math.prod(self.event_shape), hidden)

    @property
    def loc_bias(self) -> Tensor:
        """The bias of the parameter `loc`, a view [1, size of the event]."""
        wanted = list(self.family.arg_constraints)
        last: Any = self.net[-1]
        part: Tensor = last.bias.view(len(wanted), -1)[wanted.index("loc")]
        return part[None]

    def forward(self, context: Tensor) -> Any:
        """The distribution, with batch shape `context.shape[:-1]`."""
        # Read from the class, because a copied model would copy the constraints.
        wanted = self.family.arg_constraints
        raw = self.net(context).reshape(*context.shape[:-1], len(wanted), *self.event_shape)
        parameters: dict[str, Tensor] = {}
        for name, column in zip(wanted, raw.unbind(-1 - len(self.event_shape)), strict=True):
            is_positive = wanted[name] is constraints.positive
            parameters[name] = (positive if is_positive else transform_to(wanted[name]))(column)
        return self.family(**parameters).to_event(len(self.event_shape))


@recorded("nets.ConstantLogits")
class ConstantLogits(nn.Module):
    """A map from x [..., x_dim] to learned logits [..., *shape] that do not depend on x.

    It is the constant form of the probability p0 of an infinite cost (paper, appendix C). The
    initial probability is 5 %.
    """

    START = -3.0

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.full(shape, self.START))

    def forward(self, x: Tensor) -> Tensor:
        """Logits with batch shape `x.shape[:-1]`."""
        # A sum, because a view of a parameter requires a gradient even under no_grad.
        return self.logits + x.new_zeros(*x.shape[:-1], *self.logits.shape)


@recorded("nets.AmortizedGuide")
class AmortizedGuide(nn.Module):
    """q(z | x) (paper, section 3.3), which predictions may use since it does not read r or y.

    :param q_z: a network from a context to a distribution of z, such as `Conditional`,
        `ConditionalFlow` or `ConditionalMixture`. Its context has x_dim columns.
    :param from_prior: whether a model is to take q_z, a normal or a `ConditionalFlow`, for a
        correction of its prior, as that of a guide with a name is: q_z has the draws that stand in
        the place of N(0, I), in units of the prior. Its last layer is set to zero, and so
        q(z | x) starts at the prior.

    >>> import pyro.distributions as dist
    >>> from pyro_gcm.nets import Conditional
    >>> guide = AmortizedGuide(Conditional(dist.Normal, 2, (3,)))
    >>> guide(torch.zeros(5, 2)).batch_shape
    torch.Size([5])
    """

    def __init__(self, q_z: nn.Module, from_prior: bool = False) -> None:
        super().__init__()
        self.q_z, self.from_prior = q_z, from_prior
        if from_prior:
            start_at_zero(q_z)

    def forward(self, x: Tensor, r: Tensor | None = None, y: Tensor | None = None) -> Any:
        """The distribution of z, with batch shape [B], for standardised x [B, x_dim].

        With `from_prior` it is the correction of a prior N(0, I).
        """
        return self.q_z(x)


@recorded("nets.PosteriorGuide")
class PosteriorGuide(AmortizedGuide):
    """q(z | x, r, y), a guide for training only, with a tighter bound than q(z | x).

    Predictions do not use it, since they have no y, and a distribution of z that depends on r would
    break the monotonicity in r.

    :param q_z: a network from a context to a distribution of z. Its context is [x, r, y], with
        x_dim + r_dim + 1 columns.
    :param from_prior: as for `AmortizedGuide`.

    >>> import pyro.distributions as dist
    >>> from pyro_gcm.nets import Conditional
    >>> guide = PosteriorGuide(Conditional(dist.Normal, 2 + 4 + 1, (3,)))
    >>> guide(torch.zeros(5, 2), torch.zeros(5, 4), torch.ones(5)).batch_shape
    torch.Size([5])
    """

    def forward(self, x: Tensor, r: Tensor | None = None, y: Tensor | None = None) -> Any:
        """The distribution of z, with batch shape [B].

        :param x: [B, x_dim]; `r`: [B, r_dim]; both standardised.
        :param y: outcomes, [B], standardised if they are continuous.
        :raises ValueError: if r or y is None.
        """
        if r is None or y is None:
            missing = " and ".join(name for name, v in (("r", r), ("y", y)) if v is None)
            raise ValueError(f"q(z|x, r, y) needs r and y, got None for {missing}")
        return self.q_z(torch.cat([x, r, y.to(x.dtype).unsqueeze(-1)], dim=-1))


@recorded("nets.RevenueGuide")
class RevenueGuide(nn.Module):
    """q(k | x, r), the guide of the kernel of IGCM (paper, section 3.4).

    :param q_k: a network from the context [x, r] to a distribution of k.
    """

    def __init__(self, q_k: nn.Module) -> None:
        super().__init__()
        self.q_k = q_k

    def forward(self, x: Tensor, r: Tensor, y: Tensor | None = None) -> Any:
        """The distribution for standardised x [..., x_dim] and r [..., r_dim], which broadcast."""
        return self.q_k(joined(x, r))


# Checks of the parts of a model, of the library or of a user


@torch.no_grad()
def one_row(part: nn.Module, columns: int) -> Any:
    """Return a part's result for one row of zeros, which shows its type and its shape."""
    like = next(part.parameters(), torch.zeros(()))
    with evaluating(part):
        return part(like.new_zeros(1, columns))


def check_input(name: str, part: nn.Module, columns: int) -> Any:
    """Return the result of a module for a row of so many columns.

    :raises ValueError: for one that takes other columns, or draws random variables of its own.
    """
    like = next(part.parameters(), torch.zeros(()))
    return _result(name, part, f"{columns} columns", like.new_zeros(1, columns))


def check_shape(
    name: str, part: nn.Module, columns: int, shape: Sequence[int], *, drawn: bool = True
) -> Any:
    """Return a module's result for a row; a shape other than this would broadcast silently.

    :param drawn: whether it has to return a distribution, and not a tensor.
    :raises ValueError: for another shape, or a result that is not a distribution.
    """
    made = check_input(name, part, columns)
    if not isinstance(made, torch.distributions.Distribution if drawn else Tensor):
        wanted = "distribution" if drawn else "tensor"
        raise ValueError(f"{name} must give a {wanted}, got {kind(made)}")
    found: Any = made
    _check_event(name, found.event_shape if drawn else found.shape[1:], shape)
    return found


def check_guide(name: str, guide: nn.Module, columns: Sequence[int], shape: Sequence[int]) -> None:
    """Refuse a guide that does not take (x, r, y) to a distribution of this event shape.

    :param columns: of x and r.
    """
    like = next(guide.parameters(), torch.zeros(()))
    x, r = (like.new_zeros(2, count) for count in columns)
    made = _result(name, guide, "(x, r, y) to a distribution", x, r, like.new_ones(2))
    if not isinstance(made, torch.distributions.Distribution):
        raise ValueError(f"{name} must give a distribution, got {kind(made)}")
    _check_event(name, made.event_shape, shape)
    if tuple(made.batch_shape) != (2,):
        raise ValueError(
            f"{name} must give a distribution with a batch shape of one dimension, that of the "
            f"rows, got {tuple(made.batch_shape)} for 2 rows: use .to_event(1)"
        )


@torch.no_grad()
def _result(name: str, part: nn.Module, wanted: str, *rows: Tensor) -> Any:
    """What a part makes of rows, if it takes them and draws nothing."""
    try:
        with evaluating(part), poutine.trace() as trace:
            made = part(*rows)
    except Exception as error:
        raise ValueError(
            f"{name} must take {wanted}, and for rows of shapes {[[*own.shape] for own in rows]} "
            f"raised {type(error).__name__}: {error}"
        ) from error
    sites = [key for key, site in trace.trace.nodes.items() if site["type"] == "sample"]
    if sites:
        raise ValueError(
            f"{name} must not draw random variables itself, got sites {sites}: what all rows share "
            "is drawn in `shared`, before the rows, and what a row has of its own in `story`"
        )
    return made


def _check_event(name: str, found: Sequence[int], wanted: Sequence[int]) -> None:
    if tuple(found) != tuple(wanted):
        raise ValueError(
            f"{name} must give values of shape {tuple(wanted)} for a row, got {tuple(found)}"
        )
