"""The loss of a batch: by the reader of a story, or by an ELBO object of Pyro."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyro
import torch
from torch import Tensor

from pyro_gcm.inference.bounds import weighted_loss
from pyro_gcm.inference.scored import Noise, Scored
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.inference.views import ScaleSites, unannounced


class StoryLoss:
    """The loss that the reader of a story finds under a bound.

    :param noise: what drives draws.
    :param rows: of the whole data set.
    :param weighted: whether the last column of a batch is a factor on the loss of each row, [B], or
        on that of each member for it, [B, K].
    """

    def __init__(
        self,
        model: Any,
        pair: TrainingPair,
        bound: Any,
        noise: Noise,
        rows: int,
        weighted: bool,
    ) -> None:
        self.model, self.pair, self.bound, self.noise = model, pair, bound, noise
        self.rows, self.weighted, self.is_checked = rows, weighted, False

    def __call__(self, batch: list[Tensor]) -> Tensor:
        """The loss, summed over the rows; Pyro validates the first one."""
        columns, weights = self._split(batch)
        of_members = weights.T[:, None] if weights is not None and weights.dim() == 2 else None
        with pyro.validation_enabled(not self.is_checked):
            losses = self._read(columns, of_members).row_losses(self.rows)
        self.is_checked = True
        return (
            losses.sum() if weights is None or of_members is not None else (weights * losses).sum()
        )

    def score(self, batch: list[Tensor]) -> Tensor:
        """The loss of held-out rows; if z is a member, that of the averaged prediction.

        A member is trained on its own likelihood, but it is the average that is used, and that is
        best much later. Of rows with a weight for each member it is the average of those members
        whose weight is 0, which have left the row out.
        """
        columns, weights = self._split(batch)
        with pyro.validation_enabled(False):
            read = self._read(columns)
            if not self.pair.averaged or read.finite is None:
                losses = read.row_losses(self.rows)
            else:
                log_p = read.finite
                if weights is not None and weights.dim() == 2:
                    among = weights.T[:, None] == 0.0  # [K, 1, B]
                    log_p, weights = (among / among.sum(0)).log(), weights.mean(1)
                losses = self.model.response.averaged_loss(read.p_y, log_p, read.y)
        return losses.sum() if weights is None else (weights * losses).sum()

    def _split(self, batch: list[Tensor]) -> tuple[list[Tensor], Tensor | None]:
        return (batch[:-1], batch[-1]) if self.weighted else (batch, None)

    def _read(self, columns: list[Tensor], of_members: Tensor | None = None) -> Scored:
        self.noise.new_batch(len(columns[0]))
        return Scored(self.model, self.pair.plan, self.bound, self.noise, of_members).read(*columns)


class PyroLoss:
    """The loss that an ELBO object of Pyro computes of the program and the guide of a pair."""

    def __init__(
        self, model: Any, pair: TrainingPair, bound: Any, rows: int, weighted: bool
    ) -> None:
        self.model, self.pair, self.bound = model, pair, bound
        self.rows, self.weighted, self.is_checked = rows, weighted, False
        #: What the programs announce to Pyro's store.
        self.announced: Any = {"params": {}, "constraints": {}}
        # RenyiELBO looks for parameters in the trace, and has no loss to differentiate.
        self.differentiates = hasattr(bound, "differentiable_loss")

    def __call__(self, batch: list[Tensor]) -> Tensor:
        """The loss, summed over the rows; Pyro validates the first one."""
        check, self.is_checked = not self.is_checked, True
        with self._handled(check, len(batch[0]), is_silent=self.differentiates):
            if self.weighted:
                return weighted_loss(self.bound, *self.pair[:2], batch[:-1], batch[-1])
            if self.differentiates:
                loss: Tensor = self.bound.differentiable_loss(*self.pair[:2], *batch)
                return loss
            return torch.as_tensor(self.bound.loss_and_grads(*self.pair[:2], *batch))

    def score(self, batch: list[Tensor]) -> Tensor:
        """The loss of held-out rows."""
        with self._handled(False, len(batch[0]), is_silent=True):
            if self.weighted:
                return weighted_loss(self.bound, *self.pair[:2], batch[:-1], batch[-1])
            return torch.as_tensor(self.bound.loss(*self.pair[:2], *batch))

    @contextmanager
    def _handled(self, check: bool, rows: int, *, is_silent: bool) -> Iterator[None]:
        """Pyro with what it keeps for this run, and nothing left of it afterwards."""
        with (
            ScaleSites(rows / self.rows, self.model.shared_sites()),
            pyro.validation_enabled(check),
            pyro.get_param_store().scope(self.announced),
            unannounced() if is_silent else nullcontext(),
        ):
            yield
