"""What a training run returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FitResult:
    """The result of training; the model itself is trained in place.

    :param rows: the rows of `history`.
    :param best_epoch: the epoch whose weights were kept.
    :param stopped_early: whether training stopped because `patience` was exceeded.
    :param engine: what made the steps: "plain", torch alone, or "pyro", the handlers of Pyro.
    :param engine_reason: why that engine.
    :param searches: the results of the trainings that chose the number of epochs, if there were
        any; not after a checkpoint.
    """

    rows: list[dict[str, float]] = field(repr=False)
    best_epoch: int
    stopped_early: bool
    engine: str = "plain"
    engine_reason: str = ""
    searches: tuple[FitResult, ...] = field(default=(), repr=False)

    @cached_property
    def history(self) -> pd.DataFrame:
        """One row per epoch: epoch, step, loss, learning_rate, seconds, maybe validation_loss.

        Losses are means over rows: minus the bound in nats, in the units of y, or the loss of a
        baseline, in standardised units of y. `validation_loss` is there with a validation part; of
        members it is that of their averaged prediction: minus the log score, the squared error of a
        mean in squared standard deviations, or the pinball loss.
        """
        import pandas as pd  # whose import takes as long as a short fit

        return pd.DataFrame(self.rows)
