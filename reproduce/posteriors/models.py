"""The nine problems as models of the library, in float64 and with the numbers of `problems`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM, nets
from pyro_gcm.models import MemberGCM
from pyro_gcm.responses import Ordinal, Survival
from reproduce.posteriors.quadrature import Problem
from reproduce.posteriors.references import PROBLEMS

#: The end of a guide's name -> a network from so many columns to a distribution of z.
NETWORKS: dict[str, Any] = {
    "": lambda columns, dim, hidden: nets.Conditional(dist.Normal, columns, (dim,), hidden),
    "full": nets.ConditionalMultivariateNormal,
    "flow": nets.ConditionalFlow,
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
    family: Any = getattr(dist, p.numbers["family"].capitalize())
    slope = _array(p, "c_slope") / scale
    width = _array(p, "c_scale") / scale
    center = (_array(p, "c_loc") - loc) / scale

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


@torch.no_grad()
def _fill(raw: Tensor, weight: Tensor) -> None:
    """Give a layer positive weights softplus(10 raw) / 10."""
    raw.copy_(torch.log(torch.expm1(10.0 * weight)) / 10.0)


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
    loc, scale = _array(p, "c_loc"), _array(p, "c_scale")
    count = len(loc)

    def costs(covariates: Tensor) -> Any:
        """For z, and what a member makes of x, which moves no cost."""
        member = covariates[..., :count].argmax(-1)
        return dist.Logistic(loc[member], scale[member]).to_event(1)

    options |= {"members": count, "hidden": 4, "alternatives": 1, "costs": 2}
    return MemberGCM(1, 1, cost_family=Part(costs), revenue_map=_map(p), **options)


def _guides(name: str | None, z_dim: int, k_dim: int, x_r: tuple[int, int]) -> dict[str, Any]:
    """The guide of z that is named, and that of k which goes with it, as options of a model.

    :param name: "prior", or "amortised" or "posterior", these also with "_full" and "_flow".
    :param k_dim: coordinates of the kernel of an IGCM, which has no flow; 0 for a GCM.
    :param x_r: numbers of columns of x and r.
    """
    if name in (None, "prior"):
        return {} if name is None else {"guide": name}
    kind, _, network = name.partition("_")
    make, reads_y = NETWORKS[network], kind == "posterior"
    columns = sum(x_r) + 1 if reads_y else x_r[0]
    of_z, of_k = (nets.PosteriorGuide,) * 2 if reads_y else (nets.AmortizedGuide, nets.RevenueGuide)
    with torch.random.fork_rng():
        torch.manual_seed(6)
        found: Any = {"guide": of_z(make(columns, z_dim, hidden=16))}
        if k_dim and network != "flow":
            found["kernel_guide"] = of_k(make(sum(x_r) + reads_y, k_dim, hidden=16))
    return found


def _kernel(p: Problem, options: dict[str, Any]) -> Any:
    parts: Any = {"prior": _prior(p), "cost_family": _costs(p)}
    model = IGCM(1, 1, k_dim=2, z_dim=1, dr_net=_noise(p), **parts, **options).double()
    _fill(model.loading.raw_weight, _array(p, "loading"))
    return model


def _times(p: Problem, options: dict[str, Any]) -> Any:
    model = _gcm(p, options | {"response": Survival(horizon=1.0, knots=0)})
    axis = model.response.axis
    _fill(axis.linear.raw_weight, _array(p, "axis") - axis.smallest_slope)
    return model


def _levels(p: Problem, options: dict[str, Any]) -> Any:
    thresholds = _array(p, "thresholds")
    model = _gcm(p, options | {"response": Ordinal(levels=thresholds.shape[1] + 1)})
    _fill(model.response.gaps.raw_weight, thresholds.diff() - 1e-3)  # which the response adds
    return model


_MAKE = {"members": _members, "kernel": _kernel, "times": _times, "levels": _levels}
