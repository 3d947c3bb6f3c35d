"""Products in which a row has the same bits at every place of every batch, and networks of them.

Processors multiply rows that start at a multiple of 16 to 64 bytes with another kernel than the
rows between, and matrices of other sizes in another order, and round differently. So predictions,
which run without gradients, multiply as many rows at a time as a block has, and columns of zeros
put them 64-byte steps apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import pyro.distributions as dist
import torch
from torch import Tensor, nn
from torch.distributions import constraints, transform_to
from torch.nn.functional import pad

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import broadcast_shapes, positive_int

Made = TypeVar("Made")
_STEP = 64
#: For each module the tensors that something was made of, and that.
_kept: WeakKeyDictionary[nn.Module, tuple[list[Tensor], Any]] = WeakKeyDictionary()


def block_rows(device: torch.device) -> int:
    """Rows that are multiplied at a time; on a GPU a small product takes as long as a large one.

    A multiple of what two of a processor's widest vectors hold, so that no number is computed by
    itself at the end of a tensor.
    """
    return 1024 if device.type == "cuda" else 32


def missing_columns(rows: Tensor) -> int:
    """How many columns of zeros rows [..., columns] are short of a multiple of 64 bytes."""
    return -rows.shape[-1] % (_STEP // rows.element_size())


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `torch.nn.functional.linear` of rows [..., B, columns] and a weight [width, columns].

    Without gradients the product is one of all draws [...] of a block at a time.
    """
    if torch.is_grad_enabled():
        return nn.functional.linear(rows, weight, bias)
    missing = missing_columns(rows)
    if missing:
        rows, weight = pad(rows, (0, missing)), pad(weight, (0, missing))
    block = block_rows(rows.device)
    if rows.dim() < 2 or rows.shape[-2] <= block or rows.shape[-2] % block:
        return nn.functional.linear(rows, weight, bias)
    flat = rows.flatten(0, -2)
    parts = []
    for part in flat.split(len(flat) // rows.shape[-2] * block):
        parts.append(nn.functional.linear(part, weight, bias))
    whole = torch.cat(parts)
    return whole.reshape(*rows.shape[:-1], len(weight))


class Linear(nn.Linear):
    """A layer of `torch.nn.Linear` that multiplies by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        return linear(input, self.weight, self.bias)


class MaskedLinear(Linear):
    """The same with a mask of its weights, as zuko's flows have it."""

    mask: Tensor

    def forward(self, input: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        return linear(input, self.mask * self.weight, self.bias)


def with_even_rows(module: nn.Module) -> nn.Module:
    """The module, in which every linear layer of torch or zuko is one of these from now on."""
    for part in module.modules():
        if type(part) is nn.Linear:
            part.__class__ = Linear
        elif f"{type(part).__module__}.{type(part).__name__}" == "zuko.nn.MaskedLinear":
            part.__class__ = MaskedLinear
    return module


def kept(module: nn.Module, make: Callable[[], Made], *others: Tensor) -> Made:
    """What is made of a module's own tensors, and others; without gradients once for equal ones.

    An exported program has what predictions before have made. A module with parts, such as a
    parametrisation of torch, makes it anew each time: their tensors are not compared.
    """
    if torch.is_grad_enabled() or module._modules:
        return make()
    known = _kept.get(module)
    if torch.compiler.is_compiling():
        return make() if known is None else known[1]
    own = (*module._parameters.values(), *module._buffers.values())
    tensors = [*(tensor for tensor in own if tensor is not None), *others]
    if known is None or not all(map(_are_equal, known[0], tensors)):
        known = _kept[module] = [tensor.clone() for tensor in tensors], make()
    made: Made = known[1]
    return made


def _are_equal(known: Tensor, tensor: Tensor) -> bool:
    same = known.dtype == tensor.dtype and known.device == tensor.device
    return same and torch.equal(known, tensor)


# Networks that return a distribution, and guides of them

#: Width of two hidden layers, or the widths of any number of layers.
Hidden = int | Sequence[int]

_MIN_SCALE = 0.05


def mlp(in_dim: int, out_dim: int, hidden: Hidden) -> nn.Sequential:
    """MLP with tanh activations; the default architecture is that of the paper, section 4.1.

    :param hidden: width of two hidden layers, or the widths of any number of layers; () for none.
    """
    widths = [in_dim, *widths_of(hidden)]
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
    widths = hidden if isinstance(hidden, Sequence) else (hidden, hidden)
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
        self.family: Any = family
        self.event_shape = tuple(event_shape)
        parameters = len(self.family.arg_constraints)
        self.net = mlp(in_dim, parameters * math.prod(self.event_shape), hidden)

    @property
    def loc_bias(self) -> Tensor:
        """The bias of `loc`, or of minus `increment`, a view [1, size of the event]."""
        wanted = list(self.family.arg_constraints)
        last: Any = self.net[-1]
        at = wanted.index("loc" if "loc" in wanted else "increment")
        part: Tensor = last.bias.view(len(wanted), -1)[at]
        return part[None]

    def forward(self, context: Tensor) -> Any:
        """The distribution, with batch shape `context.shape[:-1]`."""
        # Read from the class, because a copied model would copy the constraints.
        wanted = self.family.arg_constraints
        raw = self.net(context).reshape(*context.shape[:-1], len(wanted), *self.event_shape)
        parameters: dict[str, Tensor] = {}
        for name, column in zip(wanted, raw.unbind(-1 - len(self.event_shape)), strict=True):
            # As of `loc`, what raises the output makes a cost dearer.
            column = -column if name == "increment" else column
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


@recorded("nets.ConstantCategorical")
class ConstantCategorical(nn.Module):
    """p(z) for one of K members, one-hot [..., K], whatever the context."""

    logits: Tensor

    def __init__(self, members: int) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(members))

    def forward(self, context: Tensor) -> Any:
        """The distribution, with batch shape `context.shape[:-1]` and event shape [K]."""
        return dist.OneHotCategorical(logits=self.logits).expand(context.shape[:-1])


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
        """
        assert r is not None
        assert y is not None
        return self.q_z(joined(x, r, y.to(x.dtype).unsqueeze(-1)))


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
