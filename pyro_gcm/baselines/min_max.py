"""Min-max networks: extrema over groups of increasing functions, exact (MM) and smooth (SMM)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from pyro_gcm._utils.validation import one_of
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.networks import TwoStreamBody

Form = Literal["paper", "canonical"]


class MM(Baseline):
    """Min-max network (Sill, NIPS 1997).

    :param hidden: width of the hidden layers of form="paper".
    :param form: in "paper" the pieces are outputs of the two-stream body with tanh, and the score
        is the maximum over groups of the minimum within a group, also in the released code behind
        the paper's Table 3. In "canonical" the pieces are linear, with weights exp(z) for r and
        unconstrained weights for x, and the score is the minimum over groups of the maximum within
        a group.
    :param groups: number of groups; by default 3 in form="paper" and 6 otherwise.
    :param units: number of pieces per group; by default 3 in form="paper" and 6 otherwise.
    :param options: of `Baseline`: response.
    """

    strict: ClassVar[bool] = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        hidden: int = 16,
        form: Form = "paper",
        groups: int | None = None,
        units: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(x_dim, r_dim, **options)
        one_of("form", form, ["paper", "canonical"])
        self.form = form
        default = 3 if form == "paper" else 6
        self.groups = default if groups is None else groups
        self.units = default if units is None else units
        number = self.groups * self.units
        self.pieces: Any = (
            TwoStreamBody(x_dim, r_dim, hidden, number)
            if form == "paper"
            else LinearPieces(x_dim, r_dim, number)
        )

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contributions of x, one tensor for each layer that reads it."""
        return self.pieces.encode(x)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Score [...]."""
        pieces = self.pieces.decode(encoded, r).unflatten(-1, (self.groups, self.units))
        if self.form == "paper":
            return self.extremum(self.extremum(pieces, -1.0), 1.0)
        # float64, since a small learned beta amplifies rounding errors by 1 / beta.
        exact = pieces if self.training else pieces.double()
        return self.extremum(self.extremum(exact, 1.0), -1.0).to(pieces.dtype)

    def extremum(self, values: Tensor, sign: float) -> Tensor:
        """The maximum (sign 1) or the minimum (-1) over the last dimension."""
        return sign * (sign * values).amax(-1)


class SMM(MM):
    """Smooth min-max network (Igel, ICML 2024): MM with LSE(beta v) / beta as the maximum.

    beta is 4 in form="paper"; in form="canonical" its logarithm is learned, starting from -1.

    :param options: the options of `MM`, with the same defaults.
    """

    def __init__(self, x_dim: int, r_dim: int, **options: Any) -> None:
        super().__init__(x_dim, r_dim, **options)
        if self.form == "canonical":
            self.log_beta = nn.Parameter(torch.tensor(-1.0))

    @property
    def beta(self) -> Tensor | float:
        """Inverse temperature of the extrema; they are exact as it tends to infinity."""
        return 4.0 if self.form == "paper" else self.log_beta.exp()

    def extremum(self, values: Tensor, sign: float) -> Tensor:
        """The smooth maximum (sign 1) or minimum (-1) over the last dimension."""
        return sign * torch.logsumexp(sign * self.beta * values, -1) / self.beta


class LinearPieces(nn.Module):
    """Wx x + exp(z) r + b, for `outputs` pieces."""

    def __init__(self, x_dim: int, r_dim: int, outputs: int) -> None:
        super().__init__()
        self.x_layer = nn.Linear(x_dim, outputs)
        self.log_weight = nn.Parameter(torch.empty(outputs, r_dim))
        nn.init.trunc_normal_(self.log_weight)

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contribution of x, [..., outputs]."""
        return (self.x_layer(x),)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """The pieces, [..., outputs]."""
        return encoded[0] + functional.linear(r, self.log_weight.exp())
