"""Weights with priors: the likelihood, two posteriors beside NUTS, and their predictions."""

from __future__ import annotations

import functools
import math
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
import zoo
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

from pyro_gcm.diagnostics import marginal_effects
from pyro_gcm.inference import Bayesian, WeightPosterior, bayesian

#: Four numbers: locations and scales of two costs.
LAST = "cost_net.net.4.bias"


def normal(name: str, weight: Tensor) -> Any:
    return dist.Normal(torch.zeros_like(weight), 0.4)


@functools.cache
def few_weights() -> tuple[Bayesian, zoo.Rows]:
    data = zoo.rows(count=600, seed=4)
    model = zoo.make(num_samples=8)
    model.learn_units(*data[:3])
    return bayesian(model, prior=normal, parts=[LAST], num_samples=8), data


@functools.cache
def by_nuts() -> Tensor:
    weights, data = few_weights()
    pyro.set_rng_seed(0)
    mcmc = MCMC(
        NUTS(weights.program, max_tree_depth=4),
        num_samples=200,
        warmup_steps=60,
        disable_progbar=True,
    )
    mcmc.run(*data[:3])
    return mcmc.get_samples()[LAST]


@functools.cache
def whole() -> tuple[WeightPosterior, zoo.Rows]:
    data = zoo.rows(count=200)
    own = bayesian(zoo.trained("plain"), num_samples=8)
    return own.fit(*data[:3], steps=20, num_draws=6, progress=False), data


@pytest.mark.parametrize("kind", ["plain", "members", "implicit", "survival"])
def test_the_likelihood_is_that_of_predictions(kind: str) -> None:
    model, data = zoo.trained(kind), zoo.rows_of(kind, 20)
    own = bayesian(model, num_samples=16)
    found = own.log_likelihood(own.weights, *data[:3])
    wanted = model.log_prob(*data[:3], num_samples=16)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    moved = {name: (weight + 0.1).requires_grad_() for name, weight in own.weights.items()}
    other = own.log_likelihood(moved, *data[:3])
    assert (other - found).abs().max() > 1e-3
    slopes = torch.autograd.grad(other.sum(), list(moved.values()), allow_unused=True)
    assert sum(slope is not None for slope in slopes) > 3
    torch.testing.assert_close(own.log_likelihood(own.weights, *data[:3]), found)


@pytest.mark.long(keep=())
@pytest.mark.parametrize(("guide", "narrower"), [("normal", 3.5), ("low_rank", 1.5)])
def test_posteriors_of_a_few_weights_are_near_that_of_nuts(guide: str, narrower: float) -> None:
    """Independent normals are too narrow, as they are for any weights that depend on each other."""
    weights, data = few_weights()
    found = weights.fit(
        *data[:3],
        guide=guide,
        steps=300,
        batch_size=600,
        learning_rate=0.02,
        num_draws=300,
        progress=False,
    )
    draws = torch.stack([model.get_parameter(LAST).detach() for model in found.models])
    wanted = by_nuts()
    spread = wanted.std(0)
    assert ((draws.mean(0) - wanted.mean(0)).abs() < 0.4 * spread).all()
    assert (spread / draws.std(0) < narrower).all()
    assert (draws.std(0) / spread < 1.3).all()


@pytest.mark.long(keep=["torch.float32"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_no_draw_and_no_mean_falls(dtype: torch.dtype) -> None:
    posterior = WeightPosterior([copied.to(dtype) for copied in whole()[0].models])
    data = zoo.rows(count=4000, seed=9).map(lambda column: column.to(dtype))
    before, mean = posterior.predict_draws(data.x, data.r), posterior.predict(data.x, data.r)
    g = torch.Generator().manual_seed(0)
    for size in (0.0, 1e-9, 1e-4, 1e-2, 1.0):
        step = size * data.r.abs() * torch.rand(data.r.shape, generator=g, dtype=dtype)
        raised = torch.nextafter(data.r + step, torch.tensor(math.inf, dtype=dtype))
        assert (posterior.predict_draws(data.x, raised) >= before).all()
        assert (posterior.predict(data.x, raised) >= mean).all()


def test_draws_answer_what_users_ask() -> None:
    posterior, data = whole()
    few = data.map(lambda column: column[:7])
    bands = posterior.bands(few.x, few.r)
    draws = posterior.predict_draws(few.x, few.r)
    assert (bands[:, 0] < bands[:, 1]).all()
    torch.testing.assert_close(posterior.predict(few.x, few.r), draws.mean(0))
    effects = marginal_effects(posterior.models[0], few.x, few.r, replicates=posterior.models)
    assert (effects["lower"] < effects["upper"]).all()
    assert "c" in posterior.models[0].cost_posterior(*few[:3], num_samples=20, progress=False)


def test_a_guide_of_ones_own_and_wrong_options() -> None:
    weights, data = few_weights()
    found = weights.fit(*data[:3], guide=AutoDelta, steps=100, num_draws=2, progress=False)
    first, second = (model.get_parameter(LAST) for model in found.models)
    assert torch.equal(first, second)
    assert not torch.equal(first.detach(), weights.weights[LAST])
    with pytest.raises(ValueError, match="parts must begin names of weights, got 'costs'"):
        bayesian(weights.model, parts=["costs"])
    with pytest.raises(ValueError, match="model must know its units"):
        bayesian(zoo.make())
    with pytest.raises(ValueError, match="level must be a probability"):
        found.bands(data.x, data.r, level=90)
    with pytest.raises(ValueError, match="guide must be one of"):
        weights.fit(*data[:3], guide="nuts")
