"""The same pair of program and guide under Pyro's own trainer, without a change."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pyro
import pytest
import torch
from pyro.infer import SVI, RenyiELBO, Trace_ELBO, TraceMeanField_ELBO
from torch import Tensor
from toy_rows import Rows, weights

from pyro_gcm import GCM, fit
from pyro_gcm.inference import ImportanceWeightedELBO, conditional

# The last has no differentiable loss.
BOUNDS = [ImportanceWeightedELBO, Trace_ELBO, TraceMeanField_ELBO, RenyiELBO]
bounds = pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.__name__)


def by_svi(model: GCM, rows: Rows, bound: Any = Trace_ELBO, steps: int = 25) -> list[float]:
    """Losses a row of full-batch steps."""
    elbo = bound(num_particles=8, max_plate_nesting=1, vectorize_particles=True)
    svi = SVI(conditional(model.model), model.guide, pyro.optim.Adam({"lr": 0.03}), elbo)
    rows = rows._replace(r=(rows.r - 60.0) / 6.0)  # SVI learns no units
    return [float(svi.step(*rows)) / len(rows.x) for _ in range(steps)]


def untrained(model: GCM, before: dict[str, Tensor]) -> list[str]:
    after = weights(model)
    return [name for name in model.trained_parameters() if torch.equal(before[name], after[name])]


def learned(losses: list[float]) -> bool:
    return losses[-1] < min(0.62, losses[0] - 0.1)


@pytest.mark.long(keep=6)
@bounds
@pytest.mark.parametrize("guide", ["prior", "amortised"])
@pytest.mark.parametrize("response", ["binary", "continuous"])
def test_every_bound_trains_the_pair_under_svi(
    response: str, guide: str, bound: Any, toy: Rows
) -> None:
    if response == "continuous":
        toy = toy._replace(y=toy.x[:, 0] + 0.3 * toy.y)
    model = GCM(3, 2, guide=guide, response=response)
    before = weights(model)
    losses = by_svi(model, toy, bound)
    assert losses[-1] < losses[0] - 0.1
    assert not untrained(model, before)
    for name, value in model.named_parameters():  # what p(y | x, r) does not use
        if name.startswith("r_decoder."):
            assert torch.equal(before[name], value)


def test_two_trainings_in_one_process_both_train(toy: Rows) -> None:
    # The parameter store is not cleared in between.
    models = GCM(3, 2), GCM(3, 2)
    first, second = (by_svi(model, toy) for model in models)
    assert learned(first)
    assert learned(second)
    assert not torch.equal(models[0].cost_net.net[0].weight, models[1].cost_net.net[0].weight)


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["copy", "pickle"],
)
@pytest.mark.parametrize("trained_before", [False, True], ids=["new", "trained"])
def test_copy_of_a_model_trains_on_its_own(
    trained_before: bool, clone: Callable[[GCM], GCM], toy: Rows
) -> None:
    model = GCM(3, 2)
    if trained_before:
        by_svi(model, toy)
    other, before = clone(model), weights(model)
    assert other.name != model.name
    torch.testing.assert_close(weights(other), before, rtol=0, atol=0)
    losses = by_svi(other, toy)
    assert losses[-1] < losses[0] - (0.01 if trained_before else 0.1)
    assert not untrained(other, before)
    torch.testing.assert_close(weights(model), before, rtol=0, atol=0)
    assert copy.deepcopy(other).name != other.name


def test_svi_goes_on_with_a_model_that_fit_has_trained(toy: Rows) -> None:
    model = GCM(3, 2)
    fit(model, *toy, epochs=2, num_particles=8, progress=False)
    before = weights(model)
    elbo = ImportanceWeightedELBO(8, max_plate_nesting=1)
    svi = SVI(conditional(model), model.guide, pyro.optim.Adam({"lr": 0.03}), elbo)
    losses = [float(svi.step(*toy)) / 200 for _ in range(15)]
    assert losses[-1] < losses[0] - 0.05
    assert not untrained(model, before)
    torch.testing.assert_close(model.r_standardizer.loc, toy.r.mean(0))


def test_svi_trains_on_mini_batches(toy: Rows) -> None:
    model = GCM(3, 2)
    elbo = Trace_ELBO(num_particles=4, vectorize_particles=True, max_plate_nesting=1)
    svi = SVI(conditional(model), model.guide, pyro.optim.Adam({"lr": 0.03}), elbo)
    rows = toy._replace(r=(toy.r - 60.0) / 6.0)
    losses = []
    for _ in range(5):
        for part in zip(*(t.split(60) for t in rows), strict=True):  # the last has 20 rows
            losses.append(float(svi.step(*part)) / len(part[0]))
    assert sum(losses[-4:]) < sum(losses[:4])


@pytest.mark.parametrize("bound", BOUNDS[:3], ids=lambda bound: bound.__name__)
def test_a_torch_optimiser_trains_the_bound_as_a_module(bound: Any, toy: Rows) -> None:
    model = GCM(3, 2)
    before = weights(model)
    elbo = bound(num_particles=8, max_plate_nesting=1, vectorize_particles=True)
    module = elbo(conditional(model), model.guide)
    rows = toy._replace(r=(toy.r - 60.0) / 6.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = module(*rows)
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / 200)
    assert learned(losses)
    assert not untrained(model, before)
