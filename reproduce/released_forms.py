"""The ten networks behind the paper's Table 3, in plain torch, for several seeds at once.

They follow the code in a public collection (github.com/Anikethh/ResearchGym, commit d2f3995,
tasks/dev/gcm/model.py), which holds all ten networks, but no call that makes a GCM or an IGCM.
Every tensor has a leading dimension S of seeds, whose parameters and rows are independent: a matrix
is [S, rows, columns], a vector [S, 1, size].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import elu, logsigmoid

Parameters = Mapping[str, Tensor]
Sizes = dict[str, tuple[int, ...]]
#: Added inside the logarithms.
EPSILON = 1e-5
#: Inverse temperature of SMM, and pieces and groups of MM and SMM.
BETA, GROUPS, UNITS = 4.0, 3, 3
#: Weights of the penalty of PWL and of the bound on the revenues of IGCM, and the shift of Hint.
SLOPES, RECONSTRUCTION, SHIFT = 0.01, 0.01, 0.1
#: Draws of z of a row in training, and in a prediction.
DRAWS, TEST_DRAWS = 32, 128


def positive(w: Tensor) -> Tensor:
    """softplus(10 w) / 10, in place of a weight that must be positive."""
    return logsigmoid(-10.0 * w) / -10.0


def cross_entropy(p: Tensor, y: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Of targets y and probabilities p, elementwise."""
    return -y * (p + epsilon).log() - (1.0 - y) * (1.0 - p + epsilon).log()


@dataclass(frozen=True)
class Form:
    """A network: the sizes of its parameters, its loss and its prediction.

    :param binary: whether y is 0 or 1.
    :param options: what one change at a time may alter; see `reproduce.released`.
    """

    x_dim: int
    r_dim: int
    hidden: int
    binary: bool
    options: Mapping[str, Any]

    def sizes(self) -> Sizes:
        """Name -> shape of a parameter: (rows, columns), or (size,)."""
        raise NotImplementedError

    def loss(
        self, p: Parameters, x: Tensor, r: Tensor, y: Tensor, noise: torch.Generator
    ) -> Tensor:
        """Mean loss of rows x [S, B, x_dim], r [S, B, r_dim] and y [S, B], for every seed [S]."""
        raise NotImplementedError

    def predict(self, p: Parameters, x: Tensor, r: Tensor, noise: Tensor) -> Tensor:
        """Pr(y = 1) or the mean for rows x [B, x_dim] that all seeds share, [S, B]."""
        raise NotImplementedError


class ScoreForm(Form):
    """A network with one number s for a row, the logit of y = 1 or the mean of y."""

    def score(self, p: Parameters, x: Tensor, r: Tensor) -> Tensor:
        """s, [S, B]."""
        raise NotImplementedError

    def penalty(
        self, p: Parameters, x: Tensor, r: Tensor, s: Tensor, noise: torch.Generator
    ) -> Tensor | float:
        """What is added to the loss, [S]."""
        return 0.0

    def loss(
        self, p: Parameters, x: Tensor, r: Tensor, y: Tensor, noise: torch.Generator
    ) -> Tensor:
        s = self.score(p, x, r)
        each = cross_entropy(s.sigmoid(), y) if self.binary else (s - y).square()
        return each.mean(1) + self.penalty(p, x, r, s, noise)

    def predict(self, p: Parameters, x: Tensor, r: Tensor, noise: Tensor) -> Tensor:
        s = self.score(p, x, r)
        return s.sigmoid() if self.binary else s


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
        own = positive if self.increasing else torch.nn.Identity()
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
        u = self.activation(r @ positive(p["wr"]) + p["br"] + a)
        a = torch.tanh(a) @ p["wx1"] + p["bx1"]
        u = self.activation(u @ positive(p["wr1"]) + p["br1"] + a)
        return self.joined(u @ positive(p["wr2"]) + torch.tanh(a) @ p["wx2"] + p["b2"])


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
        u = _cut(r @ positive(p["wr"]) + p["br"])
        a = (x @ p["wx10"] + p["bx10"]).relu()
        c = _cut(x @ p["wx20"] + p["bx20"])
        u = _cut(u @ positive(p["wr1"]) + p["br1"] + c @ p["wx21"])
        c = _cut(a @ p["wx121"] + p["bx121"])
        a = (a @ p["wx11"] + p["bx11"]).relu()
        s = a @ p["wx12"] + c @ p["wx22"] + u @ positive(p["wr2"]) + p["b2"]
        return s.squeeze(-1)


@dataclass(frozen=True)
class Costs:
    """Draws of z of every row, and the event given each.

    :param z: [S, B, N, D]; `log_weight`: log p(z) / q(z|x), [S, B, N]; `probability`: likewise.
    """

    z: Tensor
    log_weight: Tensor
    probability: Tensor


class GCM(Form):
    """z drawn from q(z|x), logistic costs given z, revenues r P with a positive matrix P.

    The weights p(z) / q(z|x) are constants in the gradient. Options: `z_dim`; `loss_type`, 0 for
    cross-entropy and 1 for targets moved to 0.1 and 0.9; `weights_learn`, for weights that are
    none.
    """

    def sizes(self) -> Sizes:
        h, d, m = self.hidden, self.options["z_dim"], self.r_dim
        shapes: Sizes = {
            "wx": (self.x_dim, h), "b": (h,),
            "wmu": (h, d), "bmu": (d,), "wsig": (h, d), "bsig": (d,),
            "wh": (d, h), "bh": (h,), "wmc": (h, m), "bmc": (m,), "wsc": (h, m), "bsc": (m,),
            **self.revenue_sizes(),
        }  # fmt: skip
        if not self.binary:
            for name in ("t", "sy"):
                shapes |= {f"w{name}1": (d, h), f"b{name}1": (h,)}
                shapes |= {f"w{name}2": (h, 1), f"b{name}2": (1,)}
        return shapes

    def revenue_sizes(self) -> Sizes:
        """Parameters of the map of the revenues."""
        return {"wr": (self.r_dim, self.r_dim)}

    def revenue(self, p: Parameters, r: Tensor) -> Tensor:
        """What is compared with the costs, [S, B, m]."""
        return r @ positive(p["wr"])

    def bound_of_revenues(self, p: Parameters, r: Tensor, noise: torch.Generator) -> Tensor | float:
        """What is subtracted from the loss, [S]."""
        return 0.0

    def costs(self, p: Parameters, x: Tensor, r: Tensor, noise: Tensor) -> Costs:
        """Draws for standard normal noise that broadcasts to [S, B, N, D]."""
        h = torch.tanh(x @ p["wx"] + p["b"])
        loc, log_var = h @ p["wmu"] + p["bmu"], h @ p["wsig"] + p["bsig"]
        loc, half = loc.unsqueeze(2), 0.5 * log_var.unsqueeze(2)
        z = loc + half.exp() * noise
        log_weight = (0.5 * noise.square() + half - 0.5 * z.square()).sum(-1)
        rows = z.flatten(1, 2)  # [S, B N, D]
        h = torch.tanh(rows @ p["wh"] + p["bh"])
        located, scale = h @ p["wmc"] + p["bmc"], spread(h @ p["wsc"] + p["bsc"])
        located, scale = (part.unflatten(1, z.shape[1:3]) for part in (located, scale))
        margin = (self.revenue(p, r).unsqueeze(2) - located) / scale
        return Costs(z, log_weight, margin.sigmoid().prod(-1))

    def log_likelihood(self, p: Parameters, drawn: Costs, y: Tensor) -> Tensor:
        """log p(y | z, r), [S, B, N]."""
        y = y.unsqueeze(-1)
        if self.binary:
            target = 0.8 * y + 0.1 if self.options.get("loss_type") else y
            epsilon = self.options.get("epsilon", EPSILON)
            return -cross_entropy(drawn.probability, target, epsilon)
        mean, scale = self._response(p, drawn)
        u = ((y - mean) / scale).sigmoid()
        epsilon = self.options.get("epsilon", EPSILON)
        return ((u + epsilon) * (1.0 - u + epsilon) / scale).log()

    def _response(self, p: Parameters, drawn: Costs) -> tuple[Tensor, Tensor]:
        """Location and scale of a continuous y given z, [S, B, N]."""
        rows, shape = drawn.z.flatten(1, 2), drawn.z.shape[1:3]
        t, s = (
            (torch.tanh(rows @ p[f"w{name}1"] + p[f"b{name}1"]) @ p[f"w{name}2"] + p[f"b{name}2"])
            .squeeze(-1)
            .unflatten(1, shape)
            for name in ("t", "sy")
        )
        scale, probability = spread(s), drawn.probability
        epsilon = self.options.get("epsilon", EPSILON)
        logit = (probability + epsilon).log() - (1.0 - probability + epsilon).log()
        return t + scale * logit, scale

    def loss(
        self, p: Parameters, x: Tensor, r: Tensor, y: Tensor, noise: torch.Generator
    ) -> Tensor:
        shape = (*y.shape, DRAWS, self.options["z_dim"])
        drawn = self.costs(p, x, r, torch.randn(shape, generator=noise, device=x.device))
        bound = self.bound(p, drawn, y)
        return -bound.mean(1) - self.bound_of_revenues(p, r, noise)

    def bound(self, p: Parameters, drawn: Costs, y: Tensor) -> Tensor:
        """log of the mean over draws of p(y | z, r) p(z) / q(z|x), [S, B]."""
        weight = drawn.log_weight
        if not self.options.get("weights_learn"):
            weight = weight.detach()
        log_p = self.log_likelihood(p, drawn, y)
        return torch.logsumexp(log_p + weight, -1) - math.log(log_p.shape[-1])

    def predict(self, p: Parameters, x: Tensor, r: Tensor, noise: Tensor) -> Tensor:
        drawn = self.costs(p, x, r, noise)
        if not self.binary:
            return self._response(p, drawn)[0].mean(-1)
        found = drawn.probability.mean(-1)
        return (found - 0.1) / 0.8 if self.options.get("loss_type") else found


class IGCM(GCM):
    """GCM with the mean of a kernel k of r in place of r P; r is reconstructed from a draw of k."""

    def revenue_sizes(self) -> Sizes:
        h, m = self.hidden, self.r_dim
        return {
            "wk": (m, h), "bk": (h,), "wkmu": (h, m), "bkmu": (m,), "wksig": (h, m), "bksig": (m,),
            "wkr": (m, m), "bkr": (m,), "rsig": (m,),
        }  # fmt: skip

    def revenue(self, p: Parameters, r: Tensor) -> Tensor:
        return torch.tanh(r @ p["wk"] + p["bk"]) @ p["wkmu"] + p["bkmu"]

    def bound_of_revenues(self, p: Parameters, r: Tensor, noise: torch.Generator) -> Tensor:
        h = torch.tanh(r @ p["wk"] + p["bk"])
        loc, log_var = h @ p["wkmu"] + p["bkmu"], h @ p["wksig"] + p["bksig"]
        drawn = torch.randn(loc.shape, generator=noise, device=r.device)
        k = loc + (0.5 * log_var).exp() * drawn
        error = (r - k @ positive(p["wkr"]) - p["bkr"]) / p["rsig"].exp()
        fits = (-0.5 * error.square() - p["rsig"]).sum(-1)
        divergence = 0.5 * (1.0 + log_var - loc.square() - log_var.exp()).sum(-1)
        return held_at_zero(RECONSTRUCTION * (fits + divergence).mean(1))


def held_at_zero(value: Tensor) -> Tensor:
    """A term that counts in the gradient alone."""
    return value - value.detach()


def spread(a: Tensor) -> Tensor:
    """A positive scale: (1 + relu(a)) / (1 + relu(-a)) + 0.1."""
    return (1.0 + a.relu()) / (1.0 + (-a).relu()) + 0.1


def _concave(u: Tensor) -> Tensor:
    return -elu(-u)


def _cut(u: Tensor) -> Tensor:
    return u.clamp(0.0, 2.0)


#: Name in the tables -> network.
FORMS: dict[str, type[Form]] = {
    "PosNN": PosNN, "MM": MM, "SMM": SMM, "CMNN": CMNN, "SMNN": SMNN,
    "Hint": Hint, "PWL": PWL, "MLP": MLP, "GCM": GCM, "IGCM": IGCM,
}  # fmt: skip
