"""The training of a program under a bound: through Pyro, or by plain steps that agree with it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyro
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pyro_gcm.inference.log_weights import LogWeights
from pyro_gcm.inference.noise import DrivenSites, Noise
from pyro_gcm.inference.plain_step import BOUNDS, plain_loss
from pyro_gcm.inference.pooled_elbo import PooledELBO
from pyro_gcm.inference.row_weights import weighted_loss
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.inference.views import unannounced
from pyro_gcm.training import FitResult, Trainer
from pyro_gcm.training.shared_draws import rows_along

#: How far loss and gradients of the engines may differ, relative to their size.
_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


class ProgramTrainer(Trainer):
    """One training run of a pair under a bound.

    The first step runs through Pyro, with all of its checks, and once more as a plain step on the
    same draws. If loss and gradients agree the plain step takes over, otherwise Pyro goes on; the
    result names the engine and the reason.

    :param bound: an ELBO, whose losses are not in its base class.
    :param noise: what drives the draws of the guide.
    :param why_not: why the plain step cannot be used; empty where it can.
    :param weighted: whether the last column of the data is a factor on the bound of each row.
    """

    def __init__(
        self,
        pair: TrainingPair,
        bound: Any,
        noise: Noise | None,
        why_not: str,
        weighted: bool,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.bound, self.pair, self.noise = bound, pair, noise or Noise()
        self.weighted = weighted
        self.is_vectorized = is_vectorized(bound)  # a run of the bound may change that
        self.program, self.guide = pair.program, pair.guide
        if noise is not None:
            self.guide = DrivenSites(noise, bound)(self.guide)
        if pair.shared:
            cancel = _DensitiesCancel(pair.shared)
            self.program, self.guide = cancel(self.program), cancel(self.guide)
        if not why_not and (pair.plain is None or type(bound) not in BOUNDS):
            part = "objective" if pair.plain is None else f"bound {type(bound).__name__}"
            why_not = f"the {part} has no plain form"
        self.dtype = next(iter(self.parameters.values())).dtype
        #: What the programs announce to Pyro's store.
        self.announced: Any = {"params": {}, "constraints": {}}
        self.engine, self.engine_reason = ("pyro", why_not) if why_not else ("", "")

    def run(self) -> FitResult:
        """As `Trainer.run`; parameters are not announced to Pyro where the bound allows it."""
        # RenyiELBO looks for parameters in the trace, and has no loss to differentiate.
        self.differentiates = hasattr(self.bound, "differentiable_loss")
        with unannounced() if self.differentiates else nullcontext():
            return super().run()

    def backward(self, batch: list[Tensor]) -> Tensor:
        """As `Trainer.backward`; the first call chooses the engine."""
        if not self.engine:
            return self._choose_engine(batch)
        self.noise.new_batch(len(batch[0]))
        if self.engine == "plain":
            return self._plain(batch)
        return self._through_pyro(batch, check=self.step == 0)

    def _plain(self, batch: list[Tensor]) -> Tensor:
        with pyro.validation_enabled(False):
            loss = self._plain_loss(batch)
        (loss / len(batch[0])).backward()
        return loss.detach()

    def _plain_loss(self, batch: list[Tensor]) -> Tensor:
        assert self.pair.plain is not None
        parts = self.pair.plain, self.bound, self.noise, self.pair.temperature
        return plain_loss(*parts, batch[:3], batch[-1] if self.weighted else None)

    def _through_pyro(self, batch: list[Tensor], check: bool) -> Tensor:
        """Through the programs, which Pyro checks if asked to."""
        with self._handled(check):
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
    def _handled(self, check: bool) -> Iterator[None]:
        """Pyro with what it keeps for this run, and nothing left of it afterwards."""
        with (
            pyro.validation_enabled(check),
            pyro.get_param_store().scope(self.announced),
            _RowsOfSites() if self.workers.size > 1 else nullcontext(),
            _OneType(self.dtype) if self.pair.enumerated else nullcontext(),
        ):
            yield

    def _choose_engine(self, batch: list[Tensor]) -> Tensor:
        """The first step, by both engines on the same draws; leaves the gradients of the one."""
        device = batch[0].device
        before = _State(self.model, device)
        self.noise.new_batch(len(batch[0]))
        loss = self._through_pyro(batch, check=True)
        after = _State(self.model, device)
        gradients = {name: p.grad for name, p in self.parameters.items()}
        self.optimizer.zero_grad(set_to_none=True)
        before.restore(self.model)
        try:
            self.noise.new_batch(len(batch[0]))
            plain = self._plain(batch)
            self.engine_reason = self._difference(loss, plain, gradients)
        except Exception as error:  # whatever it is, Pyro has made the step
            self.engine_reason = f"the plain step raised {type(error).__name__}: {error}"
        self.engine_reason = self.workers.any_of(self.engine_reason)
        self.engine = "pyro" if self.engine_reason else "plain"
        if self.engine == "plain":
            self.engine_reason = "loss and gradients of the first step are those of Pyro"
            if self.noise.at_random:
                names = " and ".join(sorted(self.noise.at_random))
                self.engine_reason += f"; nothing drives draws of {names}, which are random"
            return plain
        after.restore(self.model)
        for name, parameter in self.parameters.items():
            parameter.grad = gradients[name]
        return loss

    def _difference(self, loss: Tensor, plain: Tensor, gradients: dict[str, Tensor | None]) -> str:
        """What differs between the engines, in words; empty where nothing does."""
        tolerance = _TOLERANCE.get(self.dtype, 1e-5)
        error = float((loss - plain).abs() / loss.abs().clamp(min=1.0))
        if not error <= tolerance:
            if not self.is_vectorized:
                return "the bound draws in another order: pass max_plate_nesting=1 to it"
            return f"the plain loss of the first step differs from Pyro's by {error:.1e}, relative"
        known = [g.double().norm() for g in gradients.values() if g is not None]
        whole = torch.stack(known).norm()
        for name, parameter in self.parameters.items():
            mine, theirs = parameter.grad, gradients[name]
            if mine is None or theirs is None:
                if mine is not theirs:
                    return f"the gradient of {name} is missing on one side"
                continue
            # A part of the gradient that is small beside the whole has the digits of the whole.
            size = torch.maximum(theirs.double().norm(), 0.01 * whole)
            error = float((mine - theirs).double().norm() / size)
            if not error <= tolerance:
                return f"the plain gradient of {name} differs from Pyro's by {error:.1e}, relative"
        return ""

    def state(self) -> dict[str, Any]:
        """As `Trainer.state`, with the engine, so that another process goes on with it."""
        return {**super().state(), "engine": (self.engine, self.engine_reason)}

    def load_state(self, state: dict[str, Any]) -> None:
        """As `Trainer.load_state`."""
        super().load_state(state)
        self.engine, self.engine_reason = state["engine"]

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
        if self.engine == "plain":
            assert self.pair.plain is not None
            weights = LogWeights(self.bound, self.noise, len(batch[0]), self.pair.temperature)
            x, r, y = batch[:3]
            with pyro.validation_enabled(False):
                p_y = self.pair.plain(weights, x, r, y)
                losses = self.model.response.averaged_loss(p_y, weights.finite, y)
            return float((losses * batch[-1]).sum() if self.weighted else losses.sum())
        return self._without_gradients(PooledELBO(1.0), batch)

    def _without_gradients(self, bound: Any, batch: list[Tensor]) -> float:
        self.noise.new_batch(len(batch[0]))
        if self.engine == "plain":
            return float(self._plain_loss(batch))
        with self._handled(check=False), unannounced():
            if self.weighted:
                return float(weighted_loss(bound, self.program, self.guide, batch[:-1], batch[-1]))
            return float(bound.loss(self.program, self.guide, *batch))


class _RowsOfSites(Messenger):
    """Tells `SharedDraws` where the rows are in the draws of a site: along the plate of the data.

    It is entered outside of the bound, and so it sees sites with all of their plates.
    """

    def _pyro_sample(self, msg: Any) -> None:
        shape = getattr(msg["fn"], "batch_shape", ())
        self._along = rows_along(len(shape) - 1) if shape else nullcontext()
        self._along.__enter__()

    def _pyro_post_sample(self, msg: Any) -> None:
        self._along.__exit__(None, None, None)


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


def is_vectorized(bound: Any) -> bool:
    """Whether a bound runs its guide once a step, for all particles together."""
    together = bound.num_particles == 1 or bool(bound.vectorize_particles)
    return together and math.isfinite(bound.max_plate_nesting)


class _State:
    """What a step changes besides gradients: the generators, and buffers such as batch norm's."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self.device, self.rng = device, torch.get_rng_state()
        self.cuda_rng = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        self.weights = {k: v.clone() for k, v in model.state_dict().items()}

    def restore(self, model: Any) -> None:
        """Put it back."""
        torch.set_rng_state(self.rng)
        if self.cuda_rng is not None:
            torch.cuda.set_rng_state(self.cuda_rng, self.device)
        model.load_state_dict(self.weights)


class _DensitiesCancel(Messenger):
    """Where the guide draws from the program's own distribution, p / q is 1 and not computed."""

    def __init__(self, sites: tuple[str, ...]) -> None:
        super().__init__()
        self.sites = sites

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in self.sites:
            msg["fn"] = msg["fn"].mask(False)
