"""The training of a model under a bound: by the reader of its story, or through Pyro."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyro
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pyro_gcm.inference.bounds import PooledELBO, weighted_loss
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
    :param pyro_reason: why steps go through Pyro's handlers; empty where the reader makes them.
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
        pyro_reason: str,
        weighted: bool,
        cross_fit: CrossFit | None,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.bound, self.pair, self.points, self.weighted = bound, pair, points, weighted
        self.noise, self.cross_fit, self.trains_on_all = points or Noise(), cross_fit, False
        self.program, self.guide = pair.program, pair.guide
        if points is not None:
            self.guide = DrivenSites(points, bound)(self.guide)
        if pair.shared:
            cancel = _DensitiesCancel(pair.shared)
            self.program, self.guide = cancel(self.program), cancel(self.guide)
        #: What the programs announce to Pyro's store.
        self.announced: Any = {"params": {}, "constraints": {}}
        reason = pyro_reason or "the bound is a function of the story's log-densities"
        self.engine, self.engine_reason = "pyro" if pyro_reason else "plain", reason
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
        if self.points is not None:
            self.points.new_batch(rows)
        if self.engine == "plain":
            with pyro.validation_enabled(check):
                loss = self._plain_loss(batch)
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
        best much later. Pyro's handlers know no prediction: there it is always the log score.
        """
        averaged, rows = bool(self.pair.averaged), len(batch[0])
        if self.points is not None:
            self.points.new_batch(rows)
        if self.engine == "plain":
            with pyro.validation_enabled(False):
                return float(self._plain_loss(batch, averaged))
        bound = PooledELBO(1.0) if averaged else self.bound
        with self._handled(False, rows), unannounced():
            if self.weighted:
                return float(weighted_loss(bound, self.program, self.guide, batch[:-1], batch[-1]))
            return float(bound.loss(self.program, self.guide, *batch))

    def _plain_loss(self, batch: list[Tensor], averaged: bool = False) -> Tensor:
        """The sum over the rows of the loss that the reader finds, or that of their prediction."""
        columns, log_shares = batch[:-1] if self.weighted else batch, None
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
        dtype = next(iter(self.parameters.values())).dtype
        with (
            ScaleSites(rows / self.training.rows, self.model.shared_sites()),
            pyro.validation_enabled(check),
            pyro.get_param_store().scope(self.announced),
            _OneType(dtype) if self.pair.enumerated else nullcontext(),
        ):
            yield


class DrivenSites(Messenger):
    """Draws the sites of a guide from a noise, inside Pyro.

    :param bound: one whose particles are drawn together, in the outermost of its dimensions.
    """

    def __init__(self, noise: Noise, bound: Any) -> None:
        super().__init__()
        self.noise, self.particles = noise, bound.num_particles
        self.plates = bound.max_plate_nesting - (self.particles > 1)

    def _pyro_sample(self, msg: Any) -> None:
        q = msg["fn"]
        if msg["value"] is not None or not getattr(q, "has_rsample", False):
            return
        if self.particles > 1 and len(q.batch_shape) > self.plates:  # it depends on other draws
            msg["value"] = self.noise.draw(q, tuple(q.batch_shape))
        else:
            value = self.noise.draw(q, (self.particles, *q.batch_shape))
            unused = (1,) * (self.plates - len(q.batch_shape))
            msg["value"] = value.unflatten(0, (-1, *unused)) if self.particles > 1 else value[0]


class _OneType(TorchFunctionMode):
    """Lets Pyro's enumeration multiply log-densities of several types, for this thread alone.

    That of a site that Pyro masks is `torch.zeros` of torch's default type, in whose place it gets
    that of the model; and a response of the user's own may return that of y.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.zeros:
            kwargs = {"dtype": self.dtype, **kwargs}
        elif func in (torch.einsum, torch.tensordot):
            args = [v for part in args for v in (part if isinstance(part, list) else [part])]
            if len({v.dtype for v in args if isinstance(v, Tensor)}) > 1:
                args = [v.double() if isinstance(v, Tensor) else v for v in args]
        return func(*args, **kwargs)


class _DensitiesCancel(Messenger):
    """Where the guide draws from the program's own distribution, p / q is 1 and not computed."""

    def __init__(self, sites: tuple[str, ...]) -> None:
        super().__init__()
        self.sites = sites

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in self.sites:
            msg["fn"] = msg["fn"].mask(False)
