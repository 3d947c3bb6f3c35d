"""Predictions, densities and posteriors are those of brute force on the explicit program."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.poutine as poutine
import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import IGCM
from pyro_gcm.testing.programs import weighed

BRUTE, DRAWS = 25_000, 3000
#: A kind of model, and how its posterior is asked for.
CASES: dict[str, str] = {
    "plain": "rejection",
    "laplace prior": "importance",
    "posterior flow": "importance",
    "mixture prior": "auto",
    "categorical prior": "enumeration",
    "conditional p0": "auto",
    "continuous": "auto",
    "literal loss": "auto",
    "joint": "auto",
    "joint, continuous": "auto",
    "implicit": "auto",
    "implicit, one kernel": "auto",
    "implicit, continuous": "auto",
    "implicit, categorical": "auto",
    "implicit, joint": "auto",
}


@torch.no_grad()
def explicit(model: Any, x: Tensor, r: Tensor) -> tuple[dict[str, Tensor], Any, Tensor]:
    """Draws of all sites [N, B, ...], costs and all, p(y) given them, and weights given x and r."""
    program = model.model
    with pyro.plate("draws", BRUTE, dim=-2):
        if model.objective == "conditional" and not model.reads_x:
            z = poutine.trace(model.guide).get_trace(x).nodes["z"]["value"]
            program = poutine.condition(program, {"z": z})
        trace = poutine.trace(program).get_trace(x, r)
    trace.compute_log_prob(lambda name, site: name in ("x", "r"))
    log_w = torch.zeros(BRUTE, len(x), dtype=torch.float64)
    for name in "xr" if model.objective == "joint" else "r" if isinstance(model, IGCM) else "":
        log_w = log_w + trace.nodes[name]["log_prob"]
    sites = {name: trace.nodes[name]["value"] for name in ("z", "k", "w", "c") if name in trace}
    return {**sites, "y": trace.nodes["y"]["value"]}, trace.nodes["y"]["fn"], log_w


def coordinates(sites: Any, values: dict[str, Tensor], names: Any) -> Tensor:
    """Those of sites [N, B, ...], in units of values, and products of two, in (-1, 1) [N, B, F]."""
    columns = []
    for name in sorted(set(names) - {"y"}):
        own, unit = sites[name].flatten(2), values[name].flatten(2)
        columns.append(
            (own - unit.median(0).values) / (unit.quantile(0.7, 0) - unit.quantile(0.3, 0) + 1e-3)
        )
    flat = torch.cat(columns, -1).nan_to_num(posinf=1e3).tanh()
    products = flat.unsqueeze(-1) * flat.unsqueeze(-2)
    return torch.cat([flat, products.flatten(2)], -1)


@pytest.mark.filterwarnings("ignore:.* rows have an effective sample size")
@pytest.mark.long(
    keep=("plain", "categorical prior", "joint", "implicit, one kernel", "implicit, joint")
)
@pytest.mark.parametrize("kind", CASES)
def test_predictions_densities_and_draws_are_those_of_brute_force(kind: str) -> None:
    model = zoo.informative(zoo.with_units(kind))
    x, r, y = zoo.rows_of(kind, 4, seed=18)
    values, given, log_w = explicit(model, x, r)
    log_y = given.log_prob(y)
    mean, deviation, size = weighed(values["y"], log_w.softmax(0))
    assert size.max() > 1000.0
    error = deviation / size.sqrt() + 0.003 * values["y"].std()
    assert ((model.predict(x, r, num_samples=4096) - mean).abs() < 5.0 * error).all()
    density, deviation, size = weighed(log_y.exp(), log_w.softmax(0))
    error = 5.0 * deviation / density / size.sqrt() + 0.02
    log_p = model.log_prob(x, r, y, num_samples=4096)
    assert ((log_p - density.log()).abs() < error).all()
    options: Any = {"num_samples": DRAWS, "num_proposals": BRUTE, "progress": False, "seed": 3}
    draws = model.posterior(x, r, y, method=CASES[kind], **options)
    assert set(draws) == set(values) - ({"w"} if model.objective != "joint" else set())
    assert ((draws.log_evidence - density.log()).abs() < error + 0.02).all()
    wanted, deviation, size = weighed(
        coordinates(values, values, draws), (log_w + log_y).softmax(0)
    )
    mine = coordinates(draws, values, draws)
    off = (mine.mean(0) - wanted).abs()
    error = deviation * (1.0 / size + 1.0 / draws.ess.double()[:, None]).sqrt()
    assert (off < 5.5 * error + 1e-4).all()
    # The comparison would find draws that did not look at y.
    blind, _, _ = weighed(coordinates(values, values, draws), log_w.softmax(0))
    assert ((mine.mean(0) - blind).abs() > 5.5 * error + 1e-4)[size[:, 0] > 100.0].any()


@pytest.mark.filterwarnings("ignore:.* rows have an effective sample size")
@pytest.mark.parametrize("proposals", [60, 300, 3000])
def test_draws_are_worth_as_many_independent_ones_as_ess_says(proposals: int) -> None:
    model, few = zoo.informative(zoo.with_units("plain")), zoo.rows(count=1, seed=18)
    rows = (column.expand(400, *column.shape[1:]) for column in few)
    options: dict[str, Any] = {"num_samples": 200, "method": "importance", "progress": False}
    draws = model.posterior(*rows, num_proposals=proposals, **options)
    z = draws["z"]  # [S, rows, D]: rows that are alike, with proposals of their own
    worth = z.flatten(0, 1).var(0) / z.mean(0).var(0)
    assert ((worth / draws.ess.mean() - 1.0).abs() < 0.3).all()
