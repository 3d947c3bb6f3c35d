"""Training a program and its guide with a Pyro bound."""

from __future__ import annotations

from typing import Any, Protocol

import pyro
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyro_gcm.inference.parameter_store import unannounced
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.training import Trainer


class Fittable(Protocol):
    """What `fit` asks of a model: a `GCM`, an `IGCM`, or anything with the same parts."""

    x_dim: int
    r_dim: int
    reads_x: bool
    response: Any
    objective: Any  # what it was trained for last

    def learn_units(self, x: Tensor, r: Tensor, y: Tensor) -> None:
        """Standardise as these rows ask for."""

    def check_costs(self, c: Any, r: Tensor | None, y: Tensor | None) -> Tensor:
        """Costs that were seen, NaN for the others; ValueError where there can be none."""

    def train(self, mode: bool = True) -> Any:
        """As `nn.Module.train`."""

    def training_pair(self, objective: str) -> TrainingPair:
        """The program and the guide of an objective; ValueError where it has no meaning."""

    def trained_parameters(self, objective: str) -> dict[str, torch.nn.Parameter]:
        """The parameters that an objective trains."""

    def to(self, device: torch.device) -> Any:
        """As `nn.Module.to`."""

    def state_dict(self) -> dict[str, Tensor]:
        """As `nn.Module.state_dict`."""

    def load_state_dict(self, state: dict[str, Tensor]) -> Any:
        """As `nn.Module.load_state_dict`."""


class ProgramTrainer(Trainer):
    """One training run of a pair under a bound.

    :param bound: an ELBO, whose losses are not in its base class.
    """

    def __init__(self, pair: TrainingPair, bound: Any, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.bound, self.program, self.guide = bound, pair.program, pair.guide
        if pair.shared:
            cancel = _DensitiesCancel(pair.shared)
            self.program, self.guide = cancel(self.program), cancel(self.guide)

    def backward(self, batch: list[Tensor]) -> Tensor:
        """As `Trainer.backward`; Pyro checks the programs in the first step only."""
        with pyro.validation_enabled(self.step == 0):
            if hasattr(self.bound, "differentiable_loss"):
                with unannounced():
                    loss = self.bound.differentiable_loss(self.program, self.guide, *batch)
                (loss / len(batch[0])).backward()
            else:  # RenyiELBO offers nothing else, and looks for parameters in the trace
                loss = torch.as_tensor(self.bound.loss_and_grads(self.program, self.guide, *batch))
                for parameter in self.parameters.values():
                    if parameter.grad is not None:
                        parameter.grad /= len(batch[0])
        return loss

    def held_out_loss(self, batch: list[Tensor]) -> float:
        """As `Trainer.held_out_loss`."""
        with pyro.validation_enabled(False), unannounced():
            return float(self.bound.loss(self.program, self.guide, *batch))


class _DensitiesCancel(Messenger):
    """Where the guide draws from the program's own distribution, p / q is 1 and not computed."""

    def __init__(self, sites: tuple[str, ...]) -> None:
        super().__init__()
        self.sites = sites

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in self.sites:
            msg["fn"] = msg["fn"].mask(False)
