"""An explicit program that is trained as it stands says what to do instead."""

from __future__ import annotations

from typing import Any

import pyro.poutine as poutine
import pytest
import torch
from pyro.infer import RenyiELBO, Trace_ELBO, TraceMeanField_ELBO
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.inference import ImportanceWeightedELBO

responses = pytest.mark.parametrize("response", ["binary", "continuous", "quantile"])


def pair(response: str) -> tuple[GCM, Tensor, Tensor, Tensor]:
    r_dim = 1 if response == "quantile" else 2
    y = torch.tensor([0.0, 1.0, 1.0, 0.0])
    return GCM(3, r_dim, response=response), torch.randn(4, 3), torch.rand(4, r_dim), y


@responses
@pytest.mark.parametrize("vectorized", [True, False], ids=["vectorised", "looped"])
@pytest.mark.parametrize(
    "elbo",
    [ImportanceWeightedELBO, Trace_ELBO, TraceMeanField_ELBO, RenyiELBO],
    ids=lambda elbo: elbo.__name__,
)
# Pyro's own check finds w and c missing first, and only warns.
@pytest.mark.filterwarnings("ignore:Found vars in model but not guide")
def test_every_bound_of_the_explicit_program_points_to_collapse(
    elbo: Any, vectorized: bool, response: str
) -> None:
    model, *rows = pair(response)
    bound = elbo(num_particles=2, max_plate_nesting=1, vectorize_particles=vectorized)
    for run in (bound.loss, bound.loss_and_grads):
        with pytest.raises(RuntimeError, match=r"'c' was drawn from p\(c\|z\).*collapse\(model\)"):
            run(model.model, model.guide, *rows)


@responses
def test_explicit_program_can_be_drawn_from_and_traced(response: str) -> None:
    model, x, r, y = pair(response)
    trace = poutine.trace(model.model).get_trace(x, r)
    trace.compute_log_prob()
    assert trace.nodes["y"]["log_prob"].isfinite().all()
    trace = poutine.trace(model.model).get_trace(x, r, y)  # the shape of it, no density
    assert torch.equal(trace.nodes["y"]["value"], y)


def test_costs_that_the_user_gives_are_not_guarded() -> None:
    model, x, r, y = pair("binary")
    c = torch.where(y[:, None] == 1, r - 1.0, r + 1.0)
    trace = poutine.trace(poutine.condition(model.model, {"c": c})).get_trace(x, r, y)
    trace.compute_log_prob()
    assert torch.equal(trace.nodes["y"]["log_prob"], torch.zeros(4))
