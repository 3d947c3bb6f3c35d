"""A guess rate: the mirror of the probability of an infinite cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyro.distributions as dist
import pytest
import torch

from pyro_gcm import GCM, fit, load, save
from pyro_gcm.diagnostics import simulation_based_calibration
from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.order_event import GuessedEvent
from pyro_gcm.responses import Guessed


def model_of(**options: Any) -> GCM:
    response = Guessed(**options)
    model = GCM(3, 1, response=response, p0="constant", hidden=4, z_dim=2, seed=2).double()
    x, r = rows(200)
    model.learn_units(x, r, torch.arange(200.0) % 2)
    return model


def rows(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    x, r = (torch.randn(count, d, generator=g, dtype=torch.float64) for d in (3, 1))
    return x, 4.0 * r


def test_probability_is_that_of_the_event_or_a_guess() -> None:
    cost = InfiniteCost(dist.Normal(torch.zeros(1), 1.0).to_event(1), torch.tensor(-2.0))
    event = OrderEvent(cost, torch.tensor([[-40.0], [0.3], [40.0]]).double())
    p_y = GuessedEvent(event, torch.tensor(-1.0))
    g, p = torch.sigmoid(torch.tensor(-1.0).double()), event.probability64()
    torch.testing.assert_close(p_y.prediction64(), g + (1.0 - g) * p)
    both = p_y.log_prob(torch.tensor([[0.0], [1.0]]).expand(2, 3)).exp()
    torch.testing.assert_close(both.sum(0), torch.ones(3).double())
    torch.testing.assert_close(both[1], p_y.prediction64())
    draws = p_y.sample((20_000,)).double()
    torch.testing.assert_close(draws.mean(0), p_y.prediction64(), rtol=0.0, atol=0.015)


def test_costs_given_an_answer_are_those_of_rejection() -> None:
    event = OrderEvent(dist.Normal(torch.zeros(2), 1.0).to_event(1), torch.tensor([0.4, -0.2]))
    p_y = GuessedEvent(event, torch.tensor(-0.5))
    costs = event.cost.sample((200_000,))
    answers = p_y.given_cost(costs).sample()
    for y in (0.0, 1.0):
        kept, posterior = costs[answers == y], p_y.cost_posterior(torch.tensor(y))
        draws = posterior.sample((100_000,))
        torch.testing.assert_close(draws.mean(0), kept.mean(0), rtol=0.0, atol=0.02)
        torch.testing.assert_close(draws.T.cov(), kept.T.cov(), rtol=0.0, atol=0.03)
        log_p = event.cost.log_prob(draws) + p_y.given_cost(draws).log_prob(torch.tensor(y))
        want = log_p - p_y.log_prob(torch.tensor(y))
        torch.testing.assert_close(posterior.log_prob(draws), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("guess", ["constant", "conditional"])
def test_curves_run_between_the_guess_and_the_lapse_rate(guess: str, tmp_path: Path) -> None:
    model, (x, r) = model_of(guess=guess), rows(300)
    y = (torch.rand(300, generator=torch.Generator().manual_seed(3)) < 0.2).double()
    y = torch.where(r[:, 0] > 0.0, 1.0, y)
    fit(model, x, r, y, epochs=3, progress=False)
    ends = model.surface(x, torch.tensor([[-1e4], [0.0], [1e4]]))
    g = torch.sigmoid(model.response.logits(model.x_standardizer(x)))
    top = g + (1.0 - g) * torch.sigmoid(-model.infinite_net(model.x_standardizer(x)))
    torch.testing.assert_close(ends[:, 0], g)
    torch.testing.assert_close(ends[:, 2], top)
    assert (ends.diff(dim=1) >= 0.0).all()
    torch.testing.assert_close(ends[:, 1], model.predict(x, torch.zeros(300, 1)))
    save(model, tmp_path / "saved")
    assert torch.equal(load(tmp_path / "saved").predict(x, r), model.predict(x, r))


def test_a_known_rate_stays() -> None:
    model, (x, r) = model_of(rate=0.5), rows(60)
    fit(model, x, r, torch.arange(60.0) % 2, epochs=2, progress=False)
    low = model.predict(x, torch.full((60, 1), -1e4))
    torch.testing.assert_close(low, torch.full_like(low, 0.5))
    with pytest.raises(ValueError, match="rate must be a probability"):
        Guessed(rate=1.0)


def test_posteriors_with_guesses_are_calibrated() -> None:
    model, (x, r) = model_of(), rows(600)
    result = simulation_based_calibration(model, x, r, num_draws=19, seed=1, progress=False)
    assert result.p_value() > 1e-3, result.p_values()
