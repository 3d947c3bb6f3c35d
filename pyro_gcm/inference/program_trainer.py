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

from pyro_gcm.inference.bounds import row_losses, scored
from pyro_gcm.inference.noise import DrivenSites, Noise
from pyro_gcm.inference.pooled_elbo import PooledELBO
from pyro_gcm.inference.row_weights import weighted_loss
from pyro_gcm.inference.scored import Scored
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.inference.views import ScaleSites, unannounced
from pyro_gcm.training import FitResult, Trainer


class ProgramTrainer(Trainer):
    """One training run of a pair under a bound.

    :param bound: an ELBO, whose losses are not in its base class.
    :param noise: what drives the draws of the guide.
    :param why_pyro: why steps go through Pyro's handlers; empty where the reader makes them.
    :param weighted: whether the last column of the data is a factor on the bound of each row.
    """

    def __init__(
        self,
        pair: TrainingPair,
        bound: Any,
        noise: Noise | None,
        why_pyro: str,
        weighted: bool,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.bound, self.pair, self.noise = bound, pair, noise or Noise()
        self.weighted = weighted
        self.program, self.guide = pair.program, pair.guide
        if noise is not None:
            self.guide = DrivenSites(noise, bound)(self.guide)
        if pair.shared:
            cancel = _DensitiesCancel(pair.shared)
            self.program, self.guide = cancel(self.program), cancel(self.guide)
        self.dtype = next(iter(self.parameters.values())).dtype
        #: What the programs announce to Pyro's store.
        self.announced: Any = {"params": {}, "constraints": {}}
        reason = why_pyro or "the bound is a function of the story's log-densities"
        self.engine, self.engine_reason = "pyro" if why_pyro else "plain", reason

    def run(self) -> FitResult:
        """As `Trainer.run`; parameters are not announced to Pyro where the bound allows it."""
        # RenyiELBO looks for parameters in the trace, and has no loss to differentiate.
        self.differentiates = hasattr(self.bound, "differentiable_loss")
        with unannounced() if self.differentiates else nullcontext():
            return super().run()

    def backward(self, batch: list[Tensor]) -> Tensor:
        """As `Trainer.backward`."""
        self.noise.new_batch(len(batch[0]))
        if self.engine == "pyro":
            return self._through_pyro(batch, check=self.step == 0)
        with pyro.validation_enabled(self.step == 0):
            loss = self._plain_loss(batch)
        (loss / len(batch[0])).backward()
        return loss.detach()

    def _plain_loss(self, batch: list[Tensor]) -> Tensor:
        losses = row_losses(self.bound, self._read(batch), self.training.rows)
        return self._summed(losses, batch)

    def _read(self, batch: list[Tensor]) -> Scored:
        reader = scored(self.model, self.pair.plan, self.bound, self.noise, self.pair.temperature)
        return reader.read(*(batch[:-1] if self.weighted else batch))

    def _summed(self, losses: Tensor, batch: list[Tensor]) -> Tensor:
        return (batch[-1] * losses).sum() if self.weighted else losses.sum()

    def _through_pyro(self, batch: list[Tensor], check: bool) -> Tensor:
        """Through the programs, which Pyro checks if asked to."""
        with self._handled(check, len(batch[0])):
            if self.weighted:
                parts = self.bound, self.program, self.guide
                loss = weighted_loss(*parts, batch[:-1], batch[-1])
                (loss / len(batch[0])).backward()
            elif self.differentiates:
                loss = self.bound.differentiable_loss(self.program, self.guide, *batch)
                (loss / len(batch[0])).backward()
            else:
                loss = torch.as_tensor(self.bound.loss_and_grads(self.program, self.guide, *batch))
                for parameter in self.parameters.values():
                    if parameter.grad is not None:
                        parameter.grad /= len(batch[0])
        return loss.detach()

    @contextmanager
    def _handled(self, check: bool, rows: int) -> Iterator[None]:
        """Pyro with what it keeps for this run, and nothing left of it afterwards."""
        share = rows / self.training.rows
        with (
            ScaleSites(share, self.model.shared_sites()),
            pyro.validation_enabled(check),
            pyro.get_param_store().scope(self.announced),
            _OneType(self.dtype) if self.pair.enumerated else nullcontext(),
        ):
            yield

    def loss(self, batch: list[Tensor]) -> float:
        """As `Trainer.loss`."""
        return self._without_gradients(self.bound, batch)

    def held_out_loss(self, batch: list[Tensor]) -> float:
        """As `Trainer.held_out_loss`; of the averaged prediction where z is a member.

        A member is trained on its own likelihood, but it is the average that is used, and that is
        best much later. Pyro's handlers know no prediction: there it is always the log score.
        """
        if not self.pair.averaged:
            return self.loss(batch)
        if self.engine == "pyro":
            return self._without_gradients(PooledELBO(1.0), batch)
        self.noise.new_batch(len(batch[0]))
        with pyro.validation_enabled(False):
            read = self._read(batch)
            assert read.finite is not None
            losses = self.model.response.averaged_loss(read.p_y, read.finite, read.y)
        return float(self._summed(losses, batch))

    def _without_gradients(self, bound: Any, batch: list[Tensor]) -> float:
        self.noise.new_batch(len(batch[0]))
        if self.engine == "plain":
            with pyro.validation_enabled(False):
                return float(self._plain_loss(batch))
        with self._handled(check=False, rows=len(batch[0])), unannounced():
            if self.weighted:
                return float(weighted_loss(bound, self.program, self.guide, batch[:-1], batch[-1]))
            return float(bound.loss(self.program, self.guide, *batch))


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
