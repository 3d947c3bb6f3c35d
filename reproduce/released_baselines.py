"""The eight baselines behind the paper's Table 3; see `reproduce.released_forms`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import elu

from reproduce.released_forms import (
    Parameters,
    ScoreForm,
    Sizes,
    cross_entropy,
    held_at_zero,
)

#: Inverse temperature of SMM, and groups and pieces of MM and SMM.
BETA, GROUPS, UNITS = 4.0, 3, 3
#: Weight of the penalty of PWL, and the largest shift of Hint.
SLOPES, SHIFT = 0.01, 0.1


class OneStream(ScoreForm):
    """x and r enter one layer together; two tanh layers, and a linear output."""

    #: Whether what follows r has positive weights.
    increasing = False

    def sizes(self) -> Sizes:
        h = self.hidden
        return {
            "wx": (self.x_dim, h), "wr": (self.r_dim, h), "b": (h,),
            "w1": (h, h), "b1": (h,), "w2": (h, 1), "b2": (1,),
        }  # fmt: skip

    def layers(self, p: Parameters, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Both hidden layers [S, B, hidden] and s [S, B]."""
        own = self.positive if self.increasing else torch.nn.Identity()
        first = torch.tanh(x @ p["wx"] + r @ own(p["wr"]) + p["b"])
        second = torch.tanh(first @ own(p["w1"]) + p["b1"])
        return first, second, (second @ own(p["w2"]) + p["b2"]).squeeze(-1)

    def score(self, p: Parameters, x: Tensor, r: Tensor) -> Tensor:
        return self.layers(p, x, r)[2]


class MLP(OneStream):
    """Not constrained."""


class PosNN(OneStream):
    """Positive weights from r on."""

    increasing = True


class Hint(OneStream):
    """A penalty on the squared fall of s where all revenues of a row are raised or lowered.

    A row vector meets a column there: the fall of every row is counted once with the sign of every
    other one. Option `own_sign` counts it with its own sign alone.
    """

    def penalty(
        self, p: Parameters, x: Tensor, r: Tensor, s: Tensor, noise: torch.Generator
    ) -> Tensor:
        rows = r.shape[:2]
        sign = torch.rand(rows, generator=noise, device=r.device).sub(0.5).sign()
        shift = SHIFT * torch.rand(r.shape, generator=noise, device=r.device)
        fall = s - self.score(p, x, r + shift * sign.unsqueeze(-1))
        if self.options.get("own_sign"):
            return (fall * sign).relu().square().mean(1)
        up = (sign > 0.0).float().mean(1)
        falls, rises = (part.relu().square().mean(1) for part in (fall, -fall))
        return held_at_zero(up * falls + (1.0 - up) * rises)


class PWL(OneStream):
    """A penalty on negative slopes of s, summed over rows and revenues.

    The hidden layers are constants in the slopes.
    """

    def loss(
        self, p: Parameters, x: Tensor, r: Tensor, y: Tensor, noise: torch.Generator
    ) -> Tensor:
        first, second, s = self.layers(p, x, r)
        each = cross_entropy(s.sigmoid(), y) if self.binary else (s - y).square()
        of_second = p["w2"].mT * (1.0 - second.detach().square())
        of_first = (of_second @ p["w1"].mT) * (1.0 - first.detach().square())
        falling = (-(of_first @ p["wr"].mT)).relu().sum((1, 2))
        return each.mean(1) + held_at_zero(SLOPES * falling)


class TwoStreams(ScoreForm):
    """A stream of x, which is added to a stream of r with positive weights in every layer."""

    outputs = 1

    def sizes(self) -> Sizes:
        h, out = self.hidden, self.outputs
        return {
            "wx": (self.x_dim, h), "bx": (h,), "wx1": (h, h), "bx1": (h,),
            "wx2": (h, out), "b2": (out,),
            "wr": (self.r_dim, h), "br": (h,), "wr1": (h, h), "br1": (h,), "wr2": (h, out),
        }  # fmt: skip

    def activation(self, u: Tensor) -> Tensor:
        """Of the stream of r."""
        return torch.tanh(u)

    def joined(self, outputs: Tensor) -> Tensor:
        """s [S, B] of the outputs [S, B, outputs]."""
        return outputs.squeeze(-1)

    def score(self, p: Parameters, x: Tensor, r: Tensor) -> Tensor:
        a = x @ p["wx"] + p["bx"]
        u = self.activation(r @ self.positive(p["wr"]) + p["br"] + a)
        a = torch.tanh(a) @ p["wx1"] + p["bx1"]
        u = self.activation(u @ self.positive(p["wr1"]) + p["br1"] + a)
        return self.joined(u @ self.positive(p["wr2"]) + torch.tanh(a) @ p["wx2"] + p["b2"])


class MM(TwoStreams):
    """The largest of three smallest of three outputs."""

    outputs = GROUPS * UNITS

    def joined(self, outputs: Tensor) -> Tensor:
        return outputs.unflatten(-1, (GROUPS, UNITS)).amin(-1).amax(-1)


class SMM(MM):
    """MM with smooth extrema."""

    def joined(self, outputs: Tensor) -> Tensor:
        pieces = BETA * outputs.unflatten(-1, (GROUPS, UNITS))
        return (-torch.logsumexp(-pieces, -1)).logsumexp(-1) / BETA


class CMNN(TwoStreams):
    """Units of the stream of r that are convex, concave and bounded, by thirds."""

    def activation(self, u: Tensor) -> Tensor:
        third = self.hidden // 3
        convex, concave, bounded = u.split([third, third, self.hidden - 2 * third], -1)
        saturated = _concave(bounded.relu() - 1.0) + elu(1.0 - (-bounded).relu())
        return torch.cat([elu(convex), _concave(concave), saturated], -1)


class SMNN(ScoreForm):
    """Units of r that are cut at 0 and 2, and two streams of x."""

    def sizes(self) -> Sizes:
        h = self.hidden
        return {
            "wx10": (self.x_dim, h), "bx10": (h,), "wx11": (h, h), "bx11": (h,), "wx12": (h, 1),
            "wx121": (h, h), "bx121": (h,), "wx20": (self.x_dim, h), "bx20": (h,),
            "wx21": (h, h), "wx22": (h, 1), "b2": (1,),
            "wr": (self.r_dim, h), "br": (h,), "wr1": (h, h), "br1": (h,), "wr2": (h, 1),
        }  # fmt: skip

    def score(self, p: Parameters, x: Tensor, r: Tensor) -> Tensor:
        u = _cut(r @ self.positive(p["wr"]) + p["br"])
        a = (x @ p["wx10"] + p["bx10"]).relu()
        c = _cut(x @ p["wx20"] + p["bx20"])
        u = _cut(u @ self.positive(p["wr1"]) + p["br1"] + c @ p["wx21"])
        c = _cut(a @ p["wx121"] + p["bx121"])
        a = (a @ p["wx11"] + p["bx11"]).relu()
        s = a @ p["wx12"] + c @ p["wx22"] + u @ self.positive(p["wr2"]) + p["b2"]
        return s.squeeze(-1)


def _concave(u: Tensor) -> Tensor:
    return -elu(-u)


def _cut(u: Tensor) -> Tensor:
    return u.clamp(0.0, 2.0)
