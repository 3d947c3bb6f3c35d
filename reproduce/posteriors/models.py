"""The nine problems as models of the library, in float64 and with the numbers of `problems`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM
from pyro_gcm.models import MemberGCM
from pyro_gcm.nets import (
    AmortizedGuide,
    AxisMap,
    Conditional,
    ConditionalFlow,
    ConditionalMultivariateNormal,
    PosteriorGuide,
    RevenueGuide,
)
from pyro_gcm.responses import Ordinal, Survival
from reproduce.posteriors.joints import Problem
from reproduce.posteriors.references import PROBLEMS

FAMILIES: dict[str, Any] = {
    "normal": dist.Normal,
    "logistic": dist.Logistic,
    "laplace": dist.Laplace,
}


class Part(nn.Module):
    """A function as a module whose numbers are fixed: training leaves them as they are."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.forward = function


def _array(problem: Problem, name: str) -> Tensor:
    return torch.tensor(problem.numbers[name], dtype=torch.float64)


def _prior(p: Problem) -> Part:
    """z ~ N(z_loc + z_slope x, 1)."""
    loc, slope = _array(p, "z_loc"), _array(p, "z_slope")
    return Part(lambda x: dist.Normal(loc + slope * x.double(), 1.0).to_event(1))


def _costs(p: Problem, loc: float = 0.0, scale: float = 1.0) -> Part:
    """c ~ family(c_loc + c_slope z, c_scale), less `loc` and over `scale`."""
    family, slope = FAMILIES[p.numbers["family"]], _array(p, "c_slope") / scale
    width = _array(p, "c_scale") / scale
    center = (torch.tensor(p.numbers.get("c_loc", [0.0]), dtype=torch.float64) - loc) / scale

    def costs(z: Tensor) -> Any:
        """For z [..., D], where a D above 1 is one z for each cost."""
        z = z.double().reshape(*z.shape[:-1], *(1,) * (center.dim() - 1), -1)
        return family(center + slope * z, width).to_event(center.dim())

    return Part(costs)


def _map(p: Problem) -> Part:
    """h(r) = map r, [..., m] -> [..., (members,) (G,) K]."""
    matrix = _array(p, "map")
    return Part(lambda r: torch.tensordot(r.double(), matrix, ([-1], [-1])))


def _noise(p: Problem) -> Part:
    """dr ~ N(dr_loc, dr_scale) for any x [..., 1]."""
    loc, scale = _array(p, "dr_loc"), _array(p, "dr_scale")
    return Part(lambda x: dist.Normal(loc + 0.0 * x.double(), scale + 0.0 * x.double()).to_event(1))


class Axis(AxisMap):
    """A position on the axis of times, times the slopes `axis`."""

    def __init__(self, problem: Problem) -> None:
        slopes = _array(problem, "axis")
        super().__init__(slopes.shape[:-1], 0)
        self.straight = slopes

    def weights(self) -> Tensor:
        """[(members,) (G,) K, 1]."""
        return self.straight


def model_of(name: str, guide: str | None = None, seed: int = 0) -> Any:
    """The model of a problem, with the guide that is named; whatever else it has is fixed."""
    p = PROBLEMS[name]
    z_dim, sizes = len(p["z_loc"]) if "z_loc" in p.numbers else 1, (1, len(p.r[0]))
    options = _guides(guide, z_dim, 2 if name == "kernel" else 0, sizes)
    model: Any = _MAKE.get(name, _gcm)(p, {"seed": seed, **options})
    model = model.double()
    for key, parameter in model.named_parameters():
        parameter.requires_grad_(key.startswith(("z_guide", "k_guide", "w_guide")))
    model.is_trained = True
    return model


def rows_of(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """x, r and y of a problem, float64."""
    p = PROBLEMS[name]
    x, r, y = (torch.tensor(rows, dtype=torch.float64) for rows in (p.x, p.r, p.y))
    return x, r, y


def _gcm(p: Problem, options: dict[str, Any]) -> Any:
    shape, (loc, scale) = p["c_loc"].shape, p.numbers.get("r_units", (0.0, 1.0))
    options |= {"prior": _prior(p), "cost_family": _costs(p, loc, scale)}
    if len(shape) == 2:
        options |= {"alternatives": shape[0]}
    if "map" in p.numbers:
        options |= {"revenue_map": _map(p)}
    if "never" in p.numbers:
        logits = _array(p, "never").logit()
        options |= {"p0": Part(lambda x: logits.expand(*x.shape[:-1], -1))}
    model = GCM(1, len(p.r[0]), z_dim=len(p["z_loc"]), costs=shape[-1], **options).double()
    model.r_standardizer.loc.fill_(loc)
    model.r_standardizer.scale.fill_(scale)
    return model


def _members(p: Problem, options: dict[str, Any]) -> Any:
    count = len(p["c_loc"])
    options |= {"members": count, "hidden": 4, "alternatives": 1, "costs": 2}
    model = MemberGCM(1, 1, cost_family="logistic", revenue_map=_map(p), **options).double()
    costs: Any = model.cost_net
    with torch.no_grad():
        for parameter in costs.parameters():
            parameter.zero_()
        costs.loc_bias.copy_(torch.tensor(p.numbers["c_loc"]))
        steep = 1.0 / torch.tensor(p.numbers["c_scale"]).double() - costs._LEAST
        costs.steepness_bias.copy_(torch.log(torch.expm1(steep)) - costs._SHIFT)
    return model


def _guides(name: str | None, z_dim: int, k_dim: int, x_r: tuple[int, int]) -> dict[str, Any]:
    """The guide of z that is named, and that of k which goes with it, as options of a model.

    :param name: "prior", or "amortised" or "posterior", these also with "_full" and "_flow".
    :param k_dim: coordinates of the kernel of an IGCM, which has no flow; 0 for a GCM.
    :param x_r: numbers of columns of x and r.
    """
    kind, _, end = (name or "prior").partition("_")
    reads_y = kind == "posterior"

    def made(columns: int, dim: int) -> nn.Module:
        if end:
            network = ConditionalFlow if end == "flow" else ConditionalMultivariateNormal
            return network(columns, dim, hidden=16)
        return Conditional(dist.Normal, columns, (dim,), 16)

    if kind == "prior":
        return {} if name is None else {"guide": name}
    with torch.random.fork_rng():
        torch.manual_seed(6)
        columns = sum(x_r) + 1 if reads_y else x_r[0]
        wrap: Any = PosteriorGuide if reads_y else AmortizedGuide
        found = {"guide": wrap(made(columns, z_dim))}
        if k_dim and end != "flow":
            wrap = PosteriorGuide if reads_y else RevenueGuide
            found["kernel_guide"] = wrap(made(sum(x_r) + reads_y, k_dim))
    return found


def _kernel(p: Problem, options: dict[str, Any]) -> Any:
    parts: Any = {"prior": _prior(p), "cost_family": _costs(p)}
    model = IGCM(1, 1, k_dim=2, z_dim=1, dr_net=_noise(p), **parts, **options).double()
    with torch.no_grad():
        weight = torch.tensor([p.numbers["loading"]], dtype=torch.float64)
        model.loading.raw_weight.copy_(torch.log(torch.expm1(10.0 * weight)) / 10.0)
    return model


def _times(p: Problem, options: dict[str, Any]) -> Any:
    model = _gcm(p, options | {"response": Survival(horizon=1.0)})
    model.response.axis = Axis(p)
    return model


def _levels(p: Problem, options: dict[str, Any]) -> Any:
    thresholds = torch.tensor(p.numbers["thresholds"], dtype=torch.float64)
    response = Ordinal(levels=thresholds.shape[1] + 1)
    model = _gcm(p, options | {"response": response})
    with torch.no_grad():
        gaps = thresholds.diff() - 1e-3  # which the response adds to each
        response.gaps.raw_weight.copy_(torch.log(torch.expm1(10.0 * gaps)) / 10.0)
    return model


_MAKE = {"members": _members, "kernel": _kernel, "times": _times, "levels": _levels}
