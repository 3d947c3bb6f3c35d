"""Costs that are drawn where y is observed: refused where they may contradict y, and only there."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from pyro.infer import (
    SVI,
    RenyiELBO,
    Trace_ELBO,
    TraceMeanField_ELBO,
    autoguide,
)
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM
from pyro_gcm.inference import ImportanceWeightedELBO, uncollapse

Rows = tuple[Tensor, Tensor, Tensor]
REFUSED = "'c' where it contradicts y.*collapse.model.*CostPosterior"
EXPLICIT: dict[str, Callable[[Any], Any]] = {
    "explicit": lambda m: m.model,
    "uncollapsed": uncollapse,
}
programs = pytest.mark.parametrize("program", EXPLICIT)


def rows(count: int = 8) -> Rows:
    y = (torch.arange(count) % 2).float()
    return torch.randn(count, 3), torch.randn(count, 2), y


def trained(program: Any, guide: Any, data: Rows, bound: Any = Trace_ELBO, steps: int = 3) -> Any:
    pyro.clear_param_store()
    elbo = bound(num_particles=2, max_plate_nesting=1)
    svi = SVI(program, guide, pyro.optim.Adam({"lr": 0.01}), elbo)
    return [svi.step(*data) for _ in range(steps)]


@programs
def test_autoguides_of_the_costs_are_refused_by_every_bound(program: str) -> None:
    for kind, name, bound in (
        (GCM, "AutoNormal", Trace_ELBO),
        (GCM, "AutoDiagonalNormal", TraceMeanField_ELBO),
        (GCM, "AutoNormalMessenger", Trace_ELBO),
        (IGCM, "AutoDelta", RenyiELBO),
        (IGCM, "AutoLaplaceApproximation", ImportanceWeightedELBO),
    ):
        explicit = EXPLICIT[program](kind(3, 2, z_dim=2))
        with pytest.raises(RuntimeError, match=r"draws site 'c'.*collapse.model.*CostPosterior"):
            trained(explicit, getattr(autoguide, name)(explicit), rows(), bound)


# Where a density of 0 is right


class Truncated(nn.Module):
    """z from its prior, and reparametrised costs on the side of their revenue that y asks for."""

    def __init__(self, model: GCM, agrees: bool = True) -> None:
        super().__init__()
        self.pair, self.agrees = model, agrees
        self.log_scale = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor, r: Tensor, y: Tensor) -> None:
        pyro.module("truncated", self, update_module_params=True)
        side = torch.where(y == 1.0, -1.0, 1.0).unsqueeze(-1)
        with pyro.plate("data", len(x), dim=-1):
            pyro.sample("z", self.pair.z_dist(x))
            pyro.sample("w", self.pair.w_dist())
            base = dist.LogNormal(0.0, self.log_scale.exp()).expand((len(x), 2))
            affine = dist.transforms.AffineTransform(r, side if self.agrees else -side)
            pyro.sample("c", dist.TransformedDistribution(base, [affine]).to_event(1))


@programs
def test_a_guide_that_respects_y_trains(program: str) -> None:
    model = GCM(3, 2, z_dim=2)
    guide = Truncated(model)
    before = guide.log_scale.clone()
    assert all(map(math.isfinite, trained(EXPLICIT[program](model), guide, rows())))
    assert not torch.equal(guide.log_scale, before)
    with pytest.raises(RuntimeError, match=REFUSED):
        trained(EXPLICIT[program](model), Truncated(model, agrees=False), rows())
    sides = EXPLICIT[program](model), Truncated(model, agrees=False)
    masked = [poutine.mask(side, mask=torch.zeros(8, dtype=torch.bool)) for side in sides]
    assert trained(*masked, rows()) == [0.0, 0.0, 0.0]  # outcomes that do not count


@programs
def test_a_response_without_an_edge_is_trained(program: str) -> None:
    explicit = EXPLICIT[program](GCM(3, 1, z_dim=2, response="quantile"))
    x, r, y = rows()
    columns = x, r[:, :1].sigmoid(), y
    guide = autoguide.AutoNormal(explicit)
    losses = trained(explicit, guide, columns, ImportanceWeightedELBO)
    assert all(map(math.isfinite, losses))


# Costs that are drawn from p(c|z) while y is observed


# Pyro's own check finds w and c missing first, and only warns.
@pytest.mark.filterwarnings("ignore:Found vars in model but not guide")
def test_every_bound_of_the_explicit_program_points_to_collapse() -> None:
    for elbo, response in (
        (ImportanceWeightedELBO, "binary"),
        (Trace_ELBO, "continuous"),
        (functools.partial(TraceMeanField_ELBO, vectorize_particles=True), "quantile"),
        (RenyiELBO, "binary"),
    ):
        x, r, y = rows()
        model = GCM(3, 1 if response == "quantile" else 2, response=response)
        columns = x, r[:, : model.r_dim].sigmoid(), y
        bound = elbo(num_particles=2, max_plate_nesting=1)
        for run in (bound.loss, bound.loss_and_grads):
            message = r"'c' was drawn from p\(c\|z\).*collapse\(model\)"
            with pytest.raises(RuntimeError, match=message):
                run(model.model, model.guide, *columns)
    x, r, y = rows()  # costs that the user gives are not guarded
    c = torch.where(y[:, None] == 1, r - 1.0, r + 1.0)
    trace = poutine.trace(poutine.condition(GCM(3, 2).model, {"c": c})).get_trace(x, r, y)
    trace.compute_log_prob()
    assert not trace.nodes["y"]["log_prob"].any()


def test_costs_without_a_gradient_get_none_from_the_revenues_they_are_compared_with() -> None:
    x, r, _ = rows()
    model = GCM(3, 2, p0="constant", response="continuous")
    trace = poutine.trace(model.model).get_trace(x, r.requires_grad_())
    assert not trace.nodes["c"]["value"].requires_grad
    trace.log_prob_sum().backward()  # without an error that costs contradict y
