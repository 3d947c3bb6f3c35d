"""Outcomes of an event or a guess, such as answers of an observer to one of two choices."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import one_of, share
from pyro_gcm.distributions import GuessedEvent, OrderEvent
from pyro_gcm.nets.networks import ConstantLogits, mlp
from pyro_gcm.responses.response import Binary


@recorded("models.Guessed")
class Guessed(Binary):
    """y in {0, 1} with Pr(y = 1) = g + (1 - g) Pr(event): it does not fall to 0 as r falls.

    With costs that may be infinite (`p0` of `GCM`) the curve runs from the guess rate g to
    g + (1 - g)(1 - p0), where (1 - g) p0 is the lapse rate. Few data tell these ends; give `rate`
    where the guess rate is known, such as 1/2 for two choices.

    :param guess: "constant", or "conditional" for a function of x.
    :param rate: a known guess rate in (0, 1), which is not trained, in the place of `guess`.
    """

    def __init__(
        self,
        x_dim: int = 0,
        hidden: Any = 16,
        *,
        guess: str = "constant",
        rate: float | None = None,
    ) -> None:
        super().__init__()
        one_of("guess", guess, ["constant", "conditional"])
        if rate is not None:
            share("rate", rate, "a probability")
        self.guess, self.rate, self.hidden = guess, rate, hidden

    def prepare(self, model: Any, cost_shape: tuple[int, ...]) -> None:
        """Build what gives the log-odds of the guess rate for what is read of x."""
        self.attach(model)
        self.logits: nn.Module = ConstantLogits()
        if self.rate is not None:
            assert isinstance(self.logits.logits, nn.Parameter)
            self.logits.logits.requires_grad_(False).fill_(math.log(self.rate / (1.0 - self.rate)))
        elif self.guess == "conditional":
            net = mlp(model.out_dim, 1, () if model.members else self.hidden)
            nn.init.constant_(net[-1].bias, ConstantLogits.START)  # type: ignore[arg-type]
            self.logits = nn.Sequential(net, nn.Flatten(-2))

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> Any:
        """The event or a guess."""
        return GuessedEvent(event, self.logits(x))
