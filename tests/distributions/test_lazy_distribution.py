"""A lazy distribution costs nothing until it is asked, and then is the distribution itself."""

from __future__ import annotations

import math

import pyro
import pyro.distributions as dist
import pytest
import torch

from pyro_gcm.distributions import LazyDistribution


class Counted:
    """A builder that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.loc = torch.randn(5, 3)

    def __call__(self) -> dist.TorchDistribution:
        self.calls += 1
        return dist.Normal(self.loc, 2.0).to_event(1)


@pytest.fixture
def build() -> Counted:
    return Counted()


@pytest.fixture
def lazy(build: Counted) -> LazyDistribution:
    return LazyDistribution(build, torch.Size([5]), torch.Size([3]))


def test_hidden_site_is_never_built(build: Counted, lazy: LazyDistribution) -> None:
    def model() -> None:
        with pyro.plate("data", 5):
            pyro.sample("x", lazy, obs=torch.zeros(5, 3))
            pyro.sample("y", dist.Normal(0.0, 1.0), obs=torch.zeros(5))

    hidden = pyro.poutine.block(model, hide=["x"])
    with pyro.plate("particles", 7, dim=-2):
        trace = pyro.poutine.trace(hidden).get_trace()
    trace.compute_log_prob()
    assert "x" not in trace.nodes
    elbo = pyro.infer.Trace_ELBO(4, vectorize_particles=True, max_plate_nesting=1)
    assert elbo.loss(hidden, lambda: None) == pytest.approx(2.5 * math.log(2.0 * math.pi))
    assert (lazy.expand((7, 5)).batch_shape, lazy.has_rsample) == ((7, 5), True)
    assert build.calls == 0


def test_each_question_builds_once_and_is_answered_by_the_distribution(
    build: Counted, lazy: LazyDistribution
) -> None:
    value, itself = torch.randn(5, 3), build()

    def draw(d: dist.TorchDistribution) -> torch.Tensor:
        torch.manual_seed(3)
        return d.rsample((2,))

    for number, ask in enumerate((draw, lambda d: d.log_prob(value), lambda d: d.sample()), 2):
        torch.manual_seed(3)
        answer = ask(lazy)
        assert build.calls == number
        torch.manual_seed(3)
        assert torch.equal(answer, ask(itself))
    assert lazy.support.event_dim == 1
    pyro.sample("x", lazy)
    assert build.calls == 6
    build.loc.requires_grad_()
    lazy.rsample().sum().backward()
    assert torch.equal(build.loc.grad, torch.ones(5, 3))
    bernoulli = LazyDistribution(
        lambda: dist.Bernoulli(torch.ones(5)), torch.Size([5]), torch.Size()
    )
    assert torch.equal(bernoulli.sample((2,)), torch.ones(2, 5))  # though not reparametrised
