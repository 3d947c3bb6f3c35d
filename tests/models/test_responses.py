"""Responses: what they accept, their units, and one of the user's own."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit, plots
from pyro_gcm.diagnostics import importance_diagnostics
from pyro_gcm.distributions import OrderEvent, ThresholdNormal
from pyro_gcm.models import MemberGCM
from pyro_gcm.responses import Binary, Continuous, Response


def test_binary_lists_a_few_of_many_strange_values() -> None:
    with pytest.raises(ValueError, match=r"got \[2.0, 3.0, 4.0, 5.0, 6.0\]$"):
        Binary().check_outcome(torch.arange(2.0, 1000.0))


@pytest.mark.parametrize("level", [1.0 - 1e-8, 1e-60])
def test_quantile_levels_that_the_model_rounds_to_the_ends_are_refused(level: float) -> None:
    model = zoo.make(response="quantile", dtype=torch.float32)
    x, r = torch.zeros(2, 3), torch.tensor([[0.25], [level]], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"between 0 and 1 .*, torch.float32, got values from"):
        model.predict(x, r)
    assert model.double().predict(x, r).isfinite().all()
    near = torch.tensor([[2.0**-120], [1.0 - 2.0**-24]])
    assert model.float().predict(x, near).isfinite().all()


def test_constant_noise_is_one_number_and_trains_the_mean_as_least_squares_do() -> None:
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(600, 1, generator=g), torch.rand(600, 1, generator=g)
    # Half of the rows are all alike: a spread that depends on x would shrink to their size.
    y = torch.where(x[:, 0] > 0, 3.0 * torch.randn(600, generator=g), torch.zeros(600))
    response = Continuous(1, noise="constant")
    model = GCM(1, 1, response=response)
    fit(model, x, r, y, epochs=10, learning_rate=0.02, progress=False)
    noise = response._curve(torch.tensor([[-2.0], [0.0], [2.0]]))[2]
    assert noise.unique().numel() == 1
    assert noise[0].item() == pytest.approx(y.std().item(), rel=0.1)
    assert float(model.predict(x, r).sub(y).square().mean()) < 1.05 * float(y.var())


class Spread(Response):
    """y is normal around the probit of the event, with a spread of 1: a response from outside."""

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> ThresholdNormal:
        one = torch.ones((), dtype=x.dtype)
        return ThresholdNormal(event, 0.0 * one, one, one)


class Own(dist.Normal):
    """A density that has the type of y, as of a user who wraps a distribution of Pyro's."""

    def given_cost(self, cost: Tensor) -> Own:
        return self

    def marginalize(self, cost: Any) -> Own:
        return self


class Wrapped(Response):
    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> Own:
        return Own(event.mean, 1.0)


@pytest.mark.filterwarnings("ignore:.*effective sample size below 100")
@pytest.mark.parametrize("prior", ["conditional", "categorical", "members"])
def test_a_density_of_the_type_of_y_can_be_summed_over_a_finite_z(prior: str) -> None:
    of = {"family": MemberGCM} if prior == "members" else {"prior": prior}
    model = zoo.make(response=Wrapped(), dtype=torch.float32, **of)
    data = zoo.rows("continuous", 16)
    zoo.quickly(model, data, epochs=1)
    with pytest.raises(ValueError, match="cost_posterior needs one order event, which 'wrapped'"):
        model.cost_posterior(data.x, data.r, data.y, num_samples=30, progress=False)


@pytest.mark.parametrize("kind", [GCM, IGCM])
def test_response_from_outside_works_everywhere_or_is_refused_by_name(kind: type) -> None:
    x, r = torch.randn(60, 3), torch.randn(60, 2)
    y = r.sum(1) + 0.3 * torch.randn(60)
    model = kind(3, 2, response=Spread())
    fit(model, x, r, y, epochs=2, progress=False)
    assert model.predict(x, r).shape == model.log_prob(x, r, y).shape == (60,)
    draws = model.posterior(x[:4], r[:4], y[:4], num_samples=50, progress=False)
    assert model.log_likelihood(x[:4], r[:4], y[:4], sites=draws).shape == (50, 4)
    assert len(importance_diagnostics(model, x, r, y, num_particles=30, progress=False)) == 60
    assert (
        plots.plot_response_curves(model, x[:2], r=r[:2]).get_ylabel().startswith("prediction of y")
    )
    for call, message in (
        (lambda: model.predictive(x, r).cdf(y), "no attribute 'cdf'"),
        (lambda: model.posterior(x, r, y, method="rejection"), "needs a response with a bounded"),
    ):
        with pytest.raises((AttributeError, ValueError), match=message):
            call()
