"""What `fit` asks of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.streams.moments import KnownMoments
from pyro_gcm.training import TrainingDefaults


class Fittable(Protocol):
    """A `GCM`, an `IGCM`, or anything with the same parts."""

    x_dim: int
    r_dim: int
    reads_x: bool
    z_guide: Any
    response: Any
    objective: Any  # what it was trained for last
    training_summary: Any  # and how, in plain data
    is_trained: bool

    @property
    def latent_dim(self) -> int:
        """Coordinates that a guide draws for a row."""

    @property
    def default_objective(self) -> str:
        """What it is trained for when nothing is named."""

    def check_story(self, *views: str) -> None:
        """TypeError for a subclass that overrides one of these views of its story."""

    def learn_units(self, x: Tensor, r: Tensor, y: Tensor, moments: KnownMoments = None) -> None:
        """Standardise as these rows ask for."""

    def check_costs(self, c: Any, r: Tensor | None, y: Tensor | None) -> Tensor:
        """Observed costs, NaN for the others; ValueError where there can be none."""

    def training_defaults(self, rows: int) -> TrainingDefaults:
        """Options of `fit` where they are left out, for a number of rows."""

    def adapt(self, rows: int, *, epochs: int | None) -> None:
        """Choose what was left to the number of rows, before training."""

    def modules(self) -> Iterator[torch.nn.Module]:
        """As `nn.Module.modules`."""

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """As `nn.Module.parameters`."""

    def buffers(self) -> Iterator[Tensor]:
        """As `nn.Module.buffers`."""

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
