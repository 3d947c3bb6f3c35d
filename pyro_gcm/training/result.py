"""The result of a training run, and a warning where it is no better than a constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyro_gcm._utils.validation import warn_user

if TYPE_CHECKING:
    import pandas as pd

#: How much worse a loss is when that is told: what few epochs, dropout and bounds may cost.
_MARGIN = 2.0


class Diverged(RuntimeError):
    """Loss, gradient or weights of a training are infinite or NaN.

    The model has the weights of the last epoch that was finished, which are in the checkpoint, too.
    """


@dataclass(frozen=True)
class FitResult:
    """The result of training; the model itself is trained in place.

    :param rows: the rows of `history`.
    :param best_epoch: the epoch whose weights were kept.
    :param stopped_early: whether training stopped because `patience` was exceeded.
    """

    rows: list[dict[str, float]]
    best_epoch: int
    stopped_early: bool

    def __repr__(self) -> str:
        kept = self.rows[self.best_epoch - 1]
        loss = ", ".join(f"{name}={kept[name]:.4g}" for name in kept if name.endswith("loss"))
        seconds = sum(row["seconds"] for row in self.rows)
        said = f"epochs={len(self.rows)}, best_epoch={self.best_epoch}, {loss}"
        return f"FitResult({said}, stopped_early={self.stopped_early}, seconds={seconds:.3g})"

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


def warn_if_worse(result: FitResult, constant: float | None, *, validated: bool = True) -> None:
    """Warn of a loss far above that of one prediction for all rows.

    :param constant: that loss, in the units of the result; None where it is not known.
    :param validated: whether the loss of rows held out, if there is one, is in these units too.
    """
    kept = result.rows[result.best_epoch - 1]
    loss = kept.get("validation_loss", kept["loss"]) if validated else kept["loss"]
    if constant is not None and loss > constant + _MARGIN:
        warn_user(
            f"training ended with a loss of {loss:.4g} a row, and one prediction for all rows has "
            f"{constant:.4g}: try a lower learning_rate, or more epochs"
        )


def constant_loss(
    loss: Callable[[Tensor, Tensor], float | None], y: Tensor, weight: Tensor | None = None
) -> float | None:
    """The mean of -log p(y) in nats of a good distribution that is the same for all rows.

    :param loss: of outcomes and shares of the rows, `constant_loss` of a response.
    :param y: outcomes of the training rows as `response.outcome` gives them.
    :param weight: of the rows, [n].
    :returns: None where y says nothing of a spread.
    """
    weight = torch.ones(len(y)) if weight is None else weight
    y, share = y.double().cpu(), weight.double().cpu()
    return None if (y == y[:1]).all() else loss(y, share / share.sum())


def entropy(y: Tensor, share: Tensor) -> float:
    """Entropy of the values [n] of rows with shares [n] in nats."""
    values, at = y.unique(return_inverse=True)
    p = share.new_zeros(len(values)).index_add_(0, at, share)
    return -float(torch.xlogy(p, p).sum())
