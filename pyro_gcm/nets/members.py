"""A discrete z whose values are networks: member z encodes x and has costs and a map of its own.

Layers of K networks that share their weights and differ by scales of their inputs and outputs are
those of BatchEnsemble (Wen et al. 2020), as TabM has it (Gorishniy et al., ICLR 2025). The package
`tabm` has these layers too; here the members come first, [K, B, d], and every product is one that
does not depend on the batch (`nets.networks`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.torch_state import in_transform
from pyro_gcm._utils.validation import one_of, positive_int
from pyro_gcm.nets.member_training import ThinnedReLU, planes
from pyro_gcm.nets.networks import block_rows, kept, linear, missing_columns, widths_of
from pyro_gcm.nets.tabular_features import TabularFeatures


@recorded("nets.MemberEncoder")
class MemberEncoder(nn.Module):
    """e_z(x), the encoding of x by member z, with z itself in its first columns.

    The members share the weights of their layers up to scales of inputs and outputs, with features
    of the table in front (`TabularFeatures`) and a ReLU and dropout after each layer.

    :param x_dim: number of covariates.
    :param members: number K of members.
    :param hidden: width of two hidden layers, or the widths of any number of layers.
    :param dropout: probability with which an activation is dropped in training; None leaves the
        choice to `fit`, which knows the number of rows.
    :param features: what the layers read; `TabularFeatures(x_dim)` by default.
    :param scaling: see `FirstLayer`.
    """

    def __init__(
        self,
        x_dim: int,
        members: int = 8,
        hidden: int | Sequence[int] = 64,
        *,
        dropout: float | None = 0.0,
        features: TabularFeatures | None = None,
        scaling: str = "input",
    ) -> None:
        super().__init__()
        self.x_dim, self.members = x_dim, positive_int("members", members)
        widths = widths_of(hidden)
        self.features = TabularFeatures(x_dim) if features is None else features
        self.first = FirstLayer(self.features.capacity, widths[0], self.members, scaling)
        self.first.rescale(self.features.capacity, x_dim)
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList(NextLayer(a, b, self.members) for a, b in pairs)
        self.chooses_dropout, self.dropout = dropout is None, ThinnedReLU(dropout or 0.0)
        #: Columns of what the rest of the program reads: z and e_z(x).
        self.out_dim = self.members + widths[-1]

    def learn(self, x: Tensor, units: Standardizer) -> None:
        """Learn the features from rows [n, x_dim] in data units."""
        before = len(self.features.active)
        self.features.learn(x, units)
        self.first.rescale(before, max(1, len(self.features.active)))

    def choose_dropout(self, dropout: float) -> None:
        """Take this dropout where the constructor was given none."""
        if self.chooses_dropout:
            self.dropout.p = dropout

    def every(self, x: Tensor) -> Tensor:
        """e_z(x) for every member, [K, B, H], for standardised x [B, x_dim]."""
        a = self.dropout(self.first(self.features(x), self.features.active))
        for layer in self.layers:
            a = self.dropout(layer(a))
        return a

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        """z and e_z(x) for one-hot z [..., B or 1, K] and x [B, x_dim], [..., B, K + H]."""
        own = gather_values(self.every(x), z)
        z = z.to(own)
        whole = torch.cat([z.expand(*own.shape[:-1], -1), own], -1)
        if torch.is_grad_enabled():
            whole.parts = z, own  # type: ignore[attr-defined]
        return whole


@recorded("nets.MemberCosts")
class MemberCosts(nn.Module):
    """p(c | e_z(x), z): every member has a linear layer of its own from its encoding to its costs.

    :param family: location-scale family with parameters `loc` and `scale`.
    :param members: number K of members.
    :param in_dim: width H of the encoding.
    :param event_shape: (K,) or (G, K), the event shape of the costs.
    """

    #: The steepness 1 / scale is softplus(raw + `_SHIFT`) + `_LEAST`, 1 for a raw output of 0.
    _LEAST = 0.02
    _SHIFT = math.log(math.expm1(1.0 - _LEAST))

    def __init__(
        self, family: type[Any], members: int, in_dim: int, event_shape: Sequence[int]
    ) -> None:
        super().__init__()
        self.family, self.members, self.event_shape = family, members, tuple(event_shape)
        size = math.prod(self.event_shape)
        self.layer = OwnLayer(in_dim, 2 * size, members)
        with torch.no_grad():
            self.layer.bias[:, :size] = torch.randn(members, size)

    @property
    def loc_bias(self) -> Tensor:
        """The bias of the locations of every member's costs, a view [K, (G) C]."""
        return self.layer.bias[:, : math.prod(self.event_shape)]

    @property
    def steepness_bias(self) -> Tensor:
        """The bias of their raw steepness, a view [K, (G) C]."""
        return self.layer.bias[:, math.prod(self.event_shape) :]

    def forward(self, covariates: Tensor) -> Any:
        """The costs for [..., B, K + H], with batch shape [..., B]."""
        z, own = parts_of(covariates, self.members)
        both = _by_member(self.layer, z, own)
        if torch.is_grad_enabled():  # rows are side by side
            loc, raw = (part.mT for part in both.mT.unflatten(-2, (2, -1)).unbind(-3))
        else:
            loc, raw = both.chunk(2, -1)
        shape = (*loc.shape[:-1], *self.event_shape)
        steepness = (nn.functional.softplus(raw + self._SHIFT) + self._LEAST).reshape(shape)
        # What makes a cost dearer, a higher location, is a smaller increment.
        at = "loc" if "loc" in self.family.arg_constraints else "increment"
        place = loc if at == "loc" else nn.functional.softplus(-loc)
        parameters = {at: place.reshape(shape), "scale": 1.0 / steepness}
        costs = self.family(**parameters, validate_args=False)
        costs.steepness = steepness  # for training, which need not invert it twice
        return costs.to_event(len(self.event_shape))


def parts_of(covariates: Tensor, members: int) -> tuple[Tensor, Tensor]:
    """z and e_z(x), of both together; in training those that were put together.

    So the gradient does not go through copies.
    """
    parts: tuple[Tensor, Tensor] | None = getattr(covariates, "parts", None)
    if parts is None or covariates._version:  # changed in place
        z, own = covariates.tensor_split([members], -1)
        parts = z, own
    return parts


def _columns(values: Tensor, index: Tensor) -> Tensor:
    return values if len(index) == values.shape[1] else values.index_select(1, index)


def _signs(*shape: int) -> Tensor:
    return torch.randint(0, 2, shape) * 2.0 - 1.0


def _scaled(weight: Tensor, r: Tensor, s: Tensor) -> Tensor:
    """W_k = R_k W S_k; the scales multiply the weights, which are fewer than the rows."""
    return (s[:, :, None] * weight * r[:, None]).mT


def _product(layer: Any, a: Tensor, *others: Tensor) -> Tensor:
    """b_k + a_k W_k for rows [K, B, in_dim] and W = `layer.matrices(*others)`, [K, in_dim, width].

    Predictions put W together once, and anew when a weight has changed, and multiply as
    `nets.networks` has it.
    """
    if torch.is_grad_enabled():
        return torch.baddbmm(layer.bias[:, None], a, layer.matrices(*others))

    def padded() -> tuple[Tensor, Tensor]:
        """Biases and matrices in whole steps of 64 bytes."""
        matrices = layer.matrices(*others)
        missing, unused = missing_columns(matrices.mT), missing_columns(matrices)
        wide = pad(matrices.mT, (0, missing, 0, unused)).contiguous().mT
        return pad(layer.bias[:, None], (0, unused)), wide

    width = layer.bias.shape[1]
    bias, matrices = kept(layer, padded, *others)
    missing = matrices.shape[1] - a.shape[-1]
    if missing:
        distinct = a[:1] if a.stride(0) == 0 else a  # members may read the same rows
        a = pad(distinct, (0, missing)).expand(len(a), -1, -1)
    block = block_rows(a.device)
    if a.shape[1] <= block or a.shape[1] % block:
        return torch.baddbmm(bias, a, matrices)[..., :width]
    parts = [torch.baddbmm(bias, part, matrices) for part in a.split(block, 1)]
    return torch.cat(parts, 1)[..., :width]


class FirstLayer(nn.Module):
    """W (R_k x) S_k + b_k, from features that all members share to [K, B, width].

    :param capacity: number of features there is room for; `forward` gets some of them.
    :param scaling: where the members differ at first by random signs: "input", in R, by which each
        sees the features otherwise; or "output", in S without an R, which is cheaper where there
        are many features.
    """

    def __init__(self, capacity: int, width: int, members: int, scaling: str = "input") -> None:
        super().__init__()
        one_of("scaling", scaling, ["input", "output"])
        self.weight = nn.Parameter(torch.randn(width, capacity) / math.sqrt(capacity))
        by_input = scaling == "input"
        self.r = nn.Parameter(_signs(members, capacity)) if by_input else None
        self.s = nn.Parameter(torch.ones(members, width) if by_input else _signs(members, width))
        self.bias = nn.Parameter(torch.rand(members, width) - 0.5)

    @torch.no_grad()
    def rescale(self, before: int, now: int) -> None:
        """Keep the size of the outputs when the number of features changes."""
        self.weight.mul_(math.sqrt(before / now))

    def forward(self, features: Tensor, active: Tensor) -> Tensor:
        """[B, A] -> [K, B, width], for the features with indices `active` [A]."""
        if self.r is None:
            shared = linear(features, _columns(self.weight, active)).unsqueeze(0)
            return torch.addcmul(self.bias[:, None], shared, self.s[:, None])
        return _product(self, features.expand(len(self.r), *features.shape), active)

    def matrices(self, active: Tensor) -> Tensor:
        """W_k of these features, [K, A, width]."""
        assert self.r is not None
        return _scaled(_columns(self.weight, active), _columns(self.r, active), self.s)


class NextLayer(nn.Module):
    """W (R_k a) S_k + b_k, [K, B, in_dim] -> [K, B, width]."""

    def __init__(self, in_dim: int, width: int, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, in_dim) * math.sqrt(2.0 / in_dim))
        self.r = nn.Parameter(torch.ones(members, in_dim))
        self.s = nn.Parameter(torch.ones(members, width))
        self.bias = nn.Parameter(0.2 * torch.rand(members, width) - 0.1)

    def forward(self, a: Tensor) -> Tensor:
        """[K, B, in_dim] -> [K, B, width]."""
        return _product(self, a)

    def matrices(self) -> Tensor:
        """W_k, [K, in_dim, width]."""
        return _scaled(self.weight, self.r, self.s)


class OwnLayer(nn.Module):
    """W_k a + b_k: weights of their own for every member, [K, B, in_dim] -> [K, B, width]."""

    def __init__(self, in_dim: int, width: int, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(members, in_dim, width) * 0.5 / math.sqrt(in_dim))
        self.bias = nn.Parameter(torch.zeros(members, width))

    def forward(self, a: Tensor) -> Tensor:
        """[K, B, in_dim] -> [K, B, width], in training with the rows side by side in memory."""
        if torch.is_grad_enabled() and not in_transform():
            beside: Tensor = planes(a, self.weight, self.bias)
            return beside.mT
        return _product(self, a)

    def matrices(self) -> Tensor:
        """W_k, [K, in_dim, width]."""
        return self.weight


def _is_every_member(z: Tensor, members: int) -> bool:
    """Whether one-hot z [..., B or 1, K] is every member in turn, along its first dimension."""
    if in_transform() or z.dim() < 3 or len(z) != members or z.shape[1:-1].numel() != z.shape[-2]:
        return False
    if torch.compiler.is_compiling():  # of predictions, which take them in turn
        return True
    if not hasattr(z, "is_every"):  # the same tensor is asked for three times in a step
        z.is_every = z.diagonal(dim1=0, dim2=-1).amin().item() == 1.0  # type: ignore[attr-defined]
    known: bool = z.is_every  # type: ignore[attr-defined]
    return known


def gather_values(values: Tensor, z: Tensor) -> Tensor:
    """The values of member z of every row, [..., B, *], from those of all members [K, B, *].

    :param z: one-hot, [..., B or 1, K].
    """
    members, rows = values.shape[:2]
    if _is_every_member(z, members):
        return values.reshape(members, *(1,) * (z.dim() - 3), rows, *values.shape[2:])
    index = z.argmax(-1)
    index = index.expand(*index.shape[:-1], rows)
    return values[index, torch.arange(rows, device=z.device)]


def gather_parameters(parameters: Tensor, z: Tensor) -> Tensor:
    """Parameters of member z of every row, [..., B or 1, *], from those of all members [K, *].

    :param z: one-hot, [..., B or 1, K].
    """
    if _is_every_member(z, len(parameters)):
        return parameters.reshape(len(parameters), *(1,) * (z.dim() - 2), *parameters.shape[1:])
    return parameters[z.argmax(-1)]


def _by_member(layer: OwnLayer, z: Tensor, own: Tensor) -> Tensor:
    """The layer of member z for [..., B, H]."""
    members, shape = len(layer.weight), own.shape
    if _is_every_member(z, members):
        out = layer(own.reshape(members, -1, shape[-1]))
        return out.reshape(*shape[:-1], -1)
    flat, index = own.reshape(-1, shape[-1]), z.argmax(-1).expand(shape[:-1]).flatten()
    every = layer(flat.expand(members, *flat.shape))
    return every[index, torch.arange(len(flat), device=z.device)].reshape(*shape[:-1], -1)
