"""The training of a model under a bound: by the reader of its story, or by an ELBO of Pyro."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyro
import torch
from torch import Tensor

from pyro_gcm.inference.bounds import weighted_loss
from pyro_gcm.inference.reading import StoryModel
from pyro_gcm.inference.scored import Noise, QuasiRandomNoise, Scored
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.inference.views import ScaleSites, unannounced
from pyro_gcm.training import FitResult, Trainer
from pyro_gcm.training.cross_fit import CrossFit

#: Epochs on all rows that follow on cross-fitting, in those up to the best one.
LAST = 0.15


class ProgramTrainer(Trainer):
    """One training run of a pair under a bound.

    :param bound: an ELBO, whose losses are not in its base class.
    :param points: what drives the draws of the guide in the place of torch's generator.
    :param is_read: whether the reader of the story finds the loss, not the bound itself.
    :param weighted: whether the last column of the data is a factor on the bound of each row.
    :param cross_fit: which members leave out which of the folds that the last column, or the one
        before the weights, has of the rows; None without one.
    """

    model: StoryModel

    def __init__(
        self,
        pair: TrainingPair,
        bound: Any,
        points: QuasiRandomNoise | None,
        is_read: bool,
        weighted: bool,
        cross_fit: CrossFit | None,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.bound, self.pair, self.points, self.weighted = bound, pair, points, weighted
        self.noise, self.cross_fit, self.trains_on_all = points or Noise(), cross_fit, False
        self.is_read, self.program, self.guide = is_read, pair.program, pair.guide
        #: What the programs announce to Pyro's store.
        self.announced: Any = {"params": {}, "constraints": {}}
        # RenyiELBO looks for parameters in the trace, and has no loss to differentiate.
        self.differentiates = hasattr(bound, "differentiable_loss")

    def run(self) -> FitResult:
        """Run `Trainer.run`, without announcing parameters to Pyro if the bound allows it."""
        with unannounced() if self.differentiates else nullcontext():
            return super().run()

    def last_epochs(self) -> int:
        """After cross-fitting a few, in which every member sees all rows."""
        if self.cross_fit is None:
            return 0
        self.crossed, self.trains_on_all = self._weights(), True
        return max(1, round(LAST * self.best_epoch))

    def backward(self, batch: list[Tensor]) -> Tensor:
        """Compute loss and gradient of a batch; Pyro validates the first step."""
        rows, check = len(batch[0]), self.step == 0
        if self.is_read:
            with pyro.validation_enabled(check):
                loss = self._read_loss(batch)
            (loss / rows).backward()
            return loss
        with self._handled(check, rows):
            if self.weighted:
                loss = weighted_loss(self.bound, self.program, self.guide, batch[:-1], batch[-1])
            elif self.differentiates:
                loss = self.bound.differentiable_loss(self.program, self.guide, *batch)
            else:
                loss = torch.as_tensor(self.bound.loss_and_grads(self.program, self.guide, *batch))
                for parameter in self.parameters.values():
                    if parameter.grad is not None:
                        parameter.grad /= rows
                return loss
            (loss / rows).backward()
        return loss

    def loss(self, batch: list[Tensor]) -> float:
        """Return the loss of a batch; if z is a member, that of the averaged prediction.

        A member is trained on its own likelihood, but it is the average that is used, and that is
        best much later. An ELBO of Pyro knows no prediction: there it is the loss itself.
        """
        if self.is_read:
            with pyro.validation_enabled(False):
                return float(self._read_loss(batch, bool(self.pair.averaged)))
        with self._handled(False, len(batch[0])), unannounced():
            if self.weighted:
                bound = self.bound, self.program, self.guide
                return float(weighted_loss(*bound, batch[:-1], batch[-1]))
            return float(self.bound.loss(self.program, self.guide, *batch))

    def _read_loss(self, batch: list[Tensor], averaged: bool = False) -> Tensor:
        """The sum over the rows of the loss that the reader finds, or that of their prediction."""
        columns, log_shares = batch[:-1] if self.weighted else batch, None
        if self.points is not None:
            self.points.new_batch(len(columns[0]))
        if self.cross_fit is not None:
            *columns, fold = columns
            if not self.trains_on_all:
                log_shares = self.cross_fit.log_shares(fold, held_out=averaged)
        of_pair = self.pair.plan, self.bound, self.noise, self.pair.temperature
        read = Scored(self.model, *of_pair, log_shares)
        read.read(*columns)
        if averaged and read.finite is not None:
            losses = self.model.response.averaged_loss(read.p_y, read.finite, read.y)
        else:
            losses = read.row_losses(self.training.rows)
        return (batch[-1] * losses).sum() if self.weighted else losses.sum()

    @contextmanager
    def _handled(self, check: bool, rows: int) -> Iterator[None]:
        """Pyro with what it keeps for this run, and nothing left of it afterwards."""
        with (
            ScaleSites(rows / self.training.rows, self.model.shared_sites()),
            pyro.validation_enabled(check),
            pyro.get_param_store().scope(self.announced),
        ):
            yield
