"""One small trained model of each kind, on the CPU and on a device, with a few rows for it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit

Model = GCM | IGCM
#: Turns a CPU tensor into the form in which a user passes it.
Put = Callable[[Tensor], Any]
TRAINING: dict[str, Any] = {"epochs": 1, "num_particles": 2, "progress": False}


class Rows(NamedTuple):
    """x [n, 2], r [n, m], y [n] and the costs that were seen [n, m], tensors or arrays."""

    x: Any
    r: Any
    y: Any
    c: Any = None

    def map(self, function: Callable[[Any], Any]) -> Rows:
        """A function of every column."""
        return Rows(*(None if column is None else function(column) for column in self))


def _rows(*, r_dim: int = 2, continuous: bool = False, gaps: bool = False) -> Rows:
    """Twelve rows; with gaps, row 1 misses a value of x and row 2 one of r, and others likewise."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 2, generator=generator, dtype=torch.float64)
    r = 0.1 + 0.8 * torch.rand(12, r_dim, generator=generator, dtype=torch.float64)
    score = x[:, 0] + 4.0 * (r.mean(1) - 0.5)
    y = 10.0 + 3.0 * score if continuous else (score > 0).double()
    if gaps:
        x[1::4, 0], r[2::4, 1] = torch.nan, torch.nan
    return Rows(x, r, y)


def _rows_with_costs() -> Rows:
    """Rows of which every other one has a seen cost; the outcome of the first was not seen."""
    rows = _rows()
    won = rows.y.unsqueeze(-1) == 1
    costs = torch.where(won, rows.r - 0.05, rows.r + 0.05)
    costs[1::2] = torch.nan
    costs[:, 1] = torch.nan
    y = rows.y.clone()
    y[0] = torch.nan
    return rows._replace(y=y, c=costs)


@dataclass(frozen=True, eq=False)
class Kind:
    """A model, the rows and the options it is trained with."""

    family: Callable[..., Model]
    options: Mapping[str, Any] = field(default_factory=dict)
    rows: Rows = field(default_factory=_rows)
    objective: str = "conditional"

    def build(self) -> Model:
        """The untrained model, on the CPU."""
        return self.family(2, self.rows.r.shape[1], num_samples=8, hidden=4, **self.options)

    def fit(self, device: Any, put: Put = lambda values: values) -> Model:
        """A new model that was trained on a device."""
        model = self.build()
        fit(model, *self.rows.map(put), objective=self.objective, device=device, **TRAINING)
        return model

    @functools.cached_property
    def trained(self) -> Model:
        """The model trained on the CPU."""
        return self.fit("cpu")

    def on(self, device: torch.device) -> Model:
        """The model of `trained`, moved to a device."""
        return _moved(self, device)


@functools.cache
def _moved(kind: Kind, device: torch.device) -> Model:
    model = kind.build()
    model.load_state_dict(kind.trained.state_dict())
    return model.to(device)


_CONTINUOUS = _rows(continuous=True)
_STANDARD = {"prior": "standard"}
KINDS: dict[str, Kind] = {
    "binary": Kind(GCM, {"guide": "posterior"}),
    "continuous": Kind(GCM, {"response": "continuous"}, _CONTINUOUS),
    "quantile": Kind(GCM, {"response": "quantile"}, _rows(r_dim=1, continuous=True)),
    "alternatives": Kind(GCM, {"alternatives": 2, "costs": 3}),
    "infinite costs": Kind(GCM, {"p0": "conditional"}),
    "categorical": Kind(GCM, {"prior": "categorical", "z_dim": 3}),
    "joint with gaps": Kind(GCM, _STANDARD, _rows(gaps=True), "joint"),
    "seen costs": Kind(GCM, {}, _rows_with_costs()),
    "implicit": Kind(IGCM),
    "implicit continuous": Kind(IGCM, {"response": "continuous", "costs": 3}, _CONTINUOUS),
    "implicit joint": Kind(IGCM, _STANDARD, objective="joint"),
    "implicit, one coordinate": Kind(IGCM, {"k_dim": 1}, objective="response_revenue"),
    "implicit paper": Kind(IGCM, {"kernel_guide": "amortised"}, objective="paper"),
}
