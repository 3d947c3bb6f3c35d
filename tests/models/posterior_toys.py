"""Models in which y says much of z and c, and their posteriors by brute force."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import linear_program
import pyro
import pyro.poutine as poutine
import torch
import zoo
from scipy import stats
from torch import Tensor

from pyro_gcm import GCM, IGCM

#: The p-value, corrected for the number of comparisons, below which two samples differ.
DIFFERENT = 1e-4


class Case(NamedTuple):
    """A kind of model, its options, how it counts as trained, and what to ask the posterior for."""

    kind: type
    options: dict[str, Any]
    objective: str = "conditional"
    asked: dict[str, Any] = {}


_IMPORTANCE = {"method": "importance"}
CASES: dict[str, Case] = {
    "rejection": Case(GCM, {}, asked={"method": "rejection"}),
    "importance": Case(GCM, {}, asked=_IMPORTANCE),
    "posterior guide": Case(GCM, {"guide": "posterior"}, asked=_IMPORTANCE),
    "posterior flow": Case(GCM, {"guide": "posterior_flow"}, asked=_IMPORTANCE),
    "mixture": Case(GCM, {"prior": "mixture"}),
    "mixture, importance": Case(GCM, {"prior": "mixture"}, asked=_IMPORTANCE),
    "categorical": Case(GCM, {"prior": "categorical", "z_dim": 4}),
    "categorical, importance": Case(GCM, {"prior": "categorical", "z_dim": 4}, asked=_IMPORTANCE),
    "flow": Case(GCM, {"prior": "flow"}),
    "laplace": Case(GCM, {"prior": "laplace", "cost_family": "laplace"}),
    "infinite": Case(GCM, {"p0": "conditional", "cost_family": "logistic"}),
    "alternatives": Case(GCM, {"alternatives": 2, "costs": 2, "p0": "constant"}),
    "standard prior": Case(GCM, {"prior": "standard"}),
    "continuous": Case(GCM, {"response": "continuous"}),
    "continuous, guided": Case(GCM, {"response": "continuous", "guide": "posterior"}),
    "quantile": Case(GCM, {"response": "quantile"}),
    "joint": Case(GCM, {"prior": "standard"}, "joint"),
    "joint, continuous": Case(GCM, {"prior": "standard", "response": "continuous"}, "joint"),
    "implicit, k integrated": Case(IGCM, {"k_dim": 1}),
    "implicit, k integrated, infinite": Case(IGCM, {"k_dim": 1, "p0": "constant"}),
    "implicit, k drawn": Case(IGCM, {}),
    "implicit, alternatives": Case(IGCM, {"alternatives": 2, "costs": 2}),
    "implicit, guided": Case(IGCM, {"guide": "posterior"}, asked=_IMPORTANCE),
    "implicit, continuous": Case(IGCM, {"response": "continuous"}),
    "implicit, joint": Case(IGCM, {"prior": "standard"}, "joint"),
}


@functools.cache
def model_of(case: str) -> Any:
    """In float64, far from its start; no test changes it."""
    kind, options, objective, _ = CASES[case]
    return informative(kind, objective, num_samples=1024, **options)


def informative(
    kind: type = GCM, objective: str = "conditional", factor: float = 1.8, **options: Any
) -> Any:
    """A model whose costs z moves more than at the start, and z x, with the units of `rows`."""
    model = zoo.informative(zoo.make(kind, **{"hidden": 8, "seed": 6, **options}), factor)
    model.learn_units(*rows(500, options.get("response")))
    model.objective = objective
    return model


def rows(count: int, response: str | None = None, seed: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """x, r, and a y for a continuous response, far from unit scale."""
    return zoo.rows("quantile" if response == "quantile" else "continuous", count, seed)[:3]


def asked_rows(case: str) -> tuple[Tensor, Tensor, Tensor]:
    """Four rows with both outcomes."""
    outcome = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    response = CASES[case].options.get("response")
    x, r, y = rows(4, response, seed=18)
    if response == "quantile":
        r = torch.tensor([[0.2], [0.5], [0.7], [0.95]], dtype=torch.float64)
        y = 200.0 + 200.0 * outcome
    return x, r, outcome if response is None else y


class Brute(NamedTuple):
    """Draws [N, B, ...] of the explicit program by site; their log-weights before y and with it."""

    sites: dict[str, Tensor]
    before: Tensor
    given_y: Tensor

    def log_evidence(self) -> Tensor:
        """log p(y | x, r)."""
        return torch.logsumexp(self.given_y, 0) - torch.logsumexp(self.before, 0)


@torch.no_grad()
def brute_force(model: Any, x: Tensor, r: Tensor, y: Tensor, draws: int) -> Brute:
    """The explicit program, costs and all, weighted by what it says of x, r and y."""
    program = model.model
    with pyro.plate("draws", draws, dim=-2):
        if model.objective == "conditional" and not model.reads_x:
            z = poutine.trace(model.guide).get_trace(x).nodes["z"]["value"]
            program = poutine.condition(program, {"z": z})
        trace = poutine.trace(program).get_trace(x, r)
    trace.compute_log_prob(lambda name, site: name in ("x", "r"))
    nodes = {name: site for name, site in trace.nodes.items() if site["type"] == "sample"}
    before = torch.zeros(draws, len(x), dtype=torch.float64)
    if isinstance(model, IGCM) or model.objective == "joint":
        before = before + nodes["r"]["log_prob"]
    if model.objective == "joint":
        before = before + nodes["x"]["log_prob"]
    values = {name: site["value"] for name, site in nodes.items()}
    return Brute(values, before, before + nodes["y"]["fn"].log_prob(y))


def features(sites: Any, among: Any = None) -> dict[str, Tensor]:
    """[N, B] quantities that tell of margins and of the dependence between sites."""
    found = {}
    for name in ("z", "k", "w", "c"):
        if name in sites and name in (among or sites):
            flat = sites[name].flatten(2)
            found.update({f"{name}{i}": flat[..., i] for i in range(flat.shape[-1])})
    first = found["c0"].clamp(max=50.0)  # a cost may be infinite
    last = next(found[name] for name in ("k1", "k0", "z1", "z0") if name in found)
    return {**found, "z0 c0": found["z0"] * first, "last c0": last * first, "sum": first + last}


def weighted_ks(draws: Tensor, size: float, values: Tensor, log_weights: Tensor) -> float:
    """p-value of the distance between draws, worth `size` independent ones, and weighted values."""
    weights = torch.softmax(log_weights, 0)
    order = values.argsort()
    grid, total = values[order], torch.cat([weights.new_zeros(1), weights[order].cumsum(0)])
    draws, gap = draws.sort().values, 0.0
    for right in (False, True):
        mine = torch.searchsorted(draws, draws, right=right).double() / len(draws)
        theirs = total[torch.searchsorted(grid, draws, right=right)]
        gap = max(gap, float((mine - theirs).abs().max()))
    other = float(1.0 / weights.square().sum())
    return float(stats.kstwobign.sf(gap * (size * other / (size + other)) ** 0.5))


def smallest_p_value(draws: Any, brute: Brute, log_weights: Tensor) -> tuple[float, str]:
    """The smallest of all rows and quantities, corrected for their number."""
    mine, theirs = features(draws), features(brute.sites, draws)
    sizes = draws.ess.tolist()
    p_values = {
        f"{name} of row {row}": weighted_ks(
            mine[name][:, row], sizes[row], theirs[name][:, row], log_weights[:, row]
        )
        for name in mine
        for row in range(len(sizes))
    }
    worst = min(p_values, key=p_values.__getitem__)
    return min(1.0, p_values[worst] * len(p_values)), worst


def linear_rows() -> tuple[Any, tuple[Tensor, Tensor, Tensor]]:
    """The linear program and four of its rows."""
    x, r, y = (t.double() for t in linear_program.rows(4, 8))
    model = linear_program.model()
    model.objective = "joint"
    return model, (x, r, y)
