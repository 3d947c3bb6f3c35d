"""Whether the predictions of a model can fall in a revenue, step by step of their computation.

A strict prediction is a composition of steps each of which keeps the order of its arguments. Sums,
products with numbers that are not negative, quotients, minima, maxima, and roundings do so by IEEE
754. Of exp, erfc, log1p and expm1 no standard says it; `SWEPT` has what was measured. Where the
arguments of exp and erfc differ, they do so by far more than an implementation errs, which proves
the order (docs/paper/order_in_floats.md has the lemma); log1p and expm1, which join alternatives,
may get neighbouring numbers, and were measured at all numbers of float32 and a billion others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm.distributions.event_planes import CostCoordinates
from pyro_gcm.distributions.families import LAPLACE, LOGISTIC, NORMAL, cost_family
from pyro_gcm.nets.piecewise_linear import LearnsLast, PiecewiseLinear
from pyro_gcm.nets.revenue_maps import PositiveLinear, Probit, Sigmoid
from pyro_gcm.responses import Binary

#: Processor capabilities of torch on which `python -m reproduce primitives` found no fall of exp,
#: erfc, log1p and expm1, with the versions of torch.
SWEPT = {("2.13", "AVX512"), ("2.13", "AVX2")}
#: Costs that are less steep could have neighbouring numbers as arguments of exp and erfc.
LEAST_STEEPNESS = 2.0**-6
_FUNCTIONS = {id(NORMAL): "erfc", id(LOGISTIC): "exp", id(LAPLACE): "exp"}
PROVED, MEASURED, OPEN = "proved", "measured", "not covered"


class Step(NamedTuple):
    """One step of the computation: its name, "proved", "measured" or "not covered", and why."""

    name: str
    status: str
    reason: str


@dataclass(frozen=True)
class OrderProof:
    """What is known of the order of a model's predictions in its revenues, for some rows.

    :param steps: of the computation, in their order.
    """

    steps: tuple[Step, ...]

    @property
    def proved(self) -> bool:
        """Whether no step can let a prediction fall."""
        return all(step.status == PROVED for step in self.steps)

    @property
    def covered(self) -> bool:
        """Whether every step is proved, or was measured at the numbers that `SWEPT` names."""
        return all(step.status != OPEN for step in self.steps)

    def __str__(self) -> str:
        """The verdict in one line."""
        if self.proved:
            return "order proved: no step of the computation can let a prediction fall"
        status = MEASURED if self.covered else OPEN
        told = "; ".join(f"{s.name}: {s.reason}" for s in self.steps if s.status == status)
        verdict = "order proved but for steps that were measured" if self.covered else "not proved"
        return f"{verdict} ({told})"


def order_proof(model: Any, event: Callable[[], Any]) -> OrderProof:
    """Look at every step of the predictions of some rows.

    :param model: a model with `StrictPredictions`.
    :param event: gives the order event of these rows; it is asked where the story is known.
    """
    return OrderProof(tuple(_steps(model, event)))


def _steps(model: Any, event: Callable[[], Any]) -> Iterator[Step]:
    overridden = model.overrides("story", "c_dist", "y_dist", "mapped")
    if overridden or type(model.response) is not Binary:
        what = "a story of its own" if overridden else f"the response {model.response.named!r}"
        yield Step("outcome", OPEN, f"{what} is not among those that were looked at")
        return
    yield Step("outcome", PROVED, "a probability of the order event between costs and h(r)")
    torch_version = ".".join(torch.__version__.split(".")[:2])
    capability = torch.backends.cpu.get_cpu_capability()
    if model.device.type != "cpu" or (torch_version, capability) not in SWEPT:
        where = f"torch {torch_version} on {model.device.type} ({capability})"
        yield Step("functions", OPEN, f"{where} is not among those that were swept")
    yield from _of_module("units of r", model.r_standardizer, model.dtype)
    yield from _of_module("revenue map", model.revenue_map, model.dtype)
    yield from _of_costs(event())
    if len(model.cost_shape) == 2:
        yield Step("alternatives", MEASURED, "log1p and expm1 at neighbouring numbers")
    yield Step("average", PROVED, "a sum over the same draws, in the same order, with weights >= 0")


def _of_costs(event: Any) -> Iterator[Step]:
    """Whether the coordinates of the costs are evaluated in a family whose functions were swept."""
    function = _FUNCTIONS.get(id(cost_family(type(event.base_dist)).standard))
    if function is None or not event.is_separable:
        family = type(event.base_dist).__name__
        yield Step("costs", OPEN, f"the family {family} is not among those that were looked at")
        return
    steepness = CostCoordinates(event).steepness
    least = steepness.min().item()
    if not least >= LEAST_STEEPNESS or not steepness.isfinite().all():
        yield Step(
            "costs", OPEN, f"their steepness 1 / scale goes down to {least:.2g} in these rows"
        )
        return
    yield Step("costs", PROVED, f"{function} at arguments further apart than it errs")


def _of_module(name: str, module: nn.Module, dtype: torch.dtype) -> Iterator[Step]:
    """The steps of a map of the revenues."""
    if isinstance(module, LearnsLast):
        for part in module:
            yield from _of_module(name, part, dtype)
    elif type(module) in (Probit, Sigmoid):
        function = "ndtri" if isinstance(module, Probit) else "sigmoid"
        status = PROVED if dtype == torch.float32 else MEASURED
        yield Step(name, status, f"{function} in float64, of numbers in {dtype}")
    elif type(module) not in _SIGNED:
        yield Step(name, OPEN, f"a {type(module).__name__} is not among those that were looked at")
    else:
        signed = _SIGNED[type(module)](module).items()
        if wrong := [part for part, values in signed if not _not_negative(values)]:
            yield Step(name, OPEN, f"its {wrong[0]} has numbers below 0, or that are not finite")
        else:
            yield Step(name, PROVED, "sums, products with numbers >= 0, minima and maxima")


def _not_negative(values: Tensor) -> bool:
    return bool(((values >= 0.0) & values.isfinite()).all())


#: Kind of map -> what must not be negative if it is to keep the order.
_SIGNED: dict[type, Callable[[Any], dict[str, Tensor]]] = {
    nn.Identity: lambda m: {},
    Standardizer: lambda m: {"scale": m.scale},
    PositiveLinear: lambda m: {"weight": m.weight},
    PiecewiseLinear: lambda m: {
        "weight": m.linear.weight,
        "slopes": m.slopes,
        "scale": m.units.scale,
    },
}
