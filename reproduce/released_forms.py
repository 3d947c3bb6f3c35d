"""What the ten networks behind the paper's Table 3 have in common, in plain torch.

They follow the code in a public collection (github.com/Anikethh/ResearchGym, commit d2f3995,
tasks/dev/gcm/model.py), which holds all ten networks, but no call that makes a GCM or an IGCM, and
they are trained for several seeds at once.
Every tensor has a leading dimension S of seeds, whose parameters and rows are independent: a matrix
is [S, rows, columns], a vector [S, 1, size].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, logsigmoid, softplus

Parameters = Mapping[str, Tensor]
Sizes = dict[str, tuple[int, ...]]
#: Added inside the logarithms.
EPSILON = 1e-5


def positive(w: Tensor) -> Tensor:
    """softplus(10 w) / 10, in place of a weight that must be positive."""
    return logsigmoid(-10.0 * w) / -10.0


#: What the paper compares (appendix E.1), its own choice first. The fourth can be negative.
POSITIVE: dict[str, Callable[[Tensor], Tensor]] = {
    "softplus(10 W) / 10": positive,
    "softplus(W)": softplus,
    "square(W)": torch.square,
    "leaky relu(W)": leaky_relu,
    "exp(W)": torch.exp,
}


def cross_entropy(p: Tensor, y: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Of targets y and probabilities p, elementwise."""
    return -y * (p + epsilon).log() - (1.0 - y) * (1.0 - p + epsilon).log()


@dataclass(frozen=True)
class Part:
    """Rows as a network reads them, float32: x [n, x_dim], r [n, r_dim], y [n]."""

    x: Tensor
    r: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, index: slice | Tensor) -> Part:
        """Some of the rows."""
        return Part(self.x[index], self.r[index], self.y[index])


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

    def positive(self, w: Tensor) -> Tensor:
        """A weight that must be positive, by the map that option `positive` names."""
        return POSITIVE[self.options.get("positive", next(iter(POSITIVE)))](w)

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


def held_at_zero(value: Tensor) -> Tensor:
    """A term that counts in the gradient alone."""
    return value - value.detach()
