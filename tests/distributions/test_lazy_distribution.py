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


def test_each_question_builds_once(build: Counted, lazy: LazyDistribution) -> None:
    value = torch.zeros(5, 3)
    for number, ask in enumerate(
        [
            lambda: lazy.log_prob(value),
            lambda: lazy.sample(),
            lambda: lazy.rsample((2,)),
            lambda: lazy.support,
            lambda: pyro.sample("x", lazy),
        ],
        start=1,
    ):
        ask()
        assert build.calls == number


def test_draws_and_densities_are_those_of_the_distribution(
    build: Counted, lazy: LazyDistribution
) -> None:
    value = torch.randn(5, 3)
    itself = build()
    assert torch.equal(lazy.log_prob(value), itself.log_prob(value))
    assert torch.equal(lazy.expand((7, 5)).log_prob(value), itself.log_prob(value).expand(7, 5))
    assert lazy.support.event_dim == 1
    assert lazy.expand((7, 5)).sample((2,)).shape == (2, 7, 5, 3)

    draws = []
    for one in (lazy, itself):
        torch.manual_seed(3)
        draws.append(one.rsample((2,)))
    assert torch.equal(*draws)
    build.loc.requires_grad_()
    lazy.rsample().sum().backward()
    assert torch.equal(build.loc.grad, torch.ones(5, 3))


def test_distribution_without_reparametrised_draws_is_sampled() -> None:
    p = torch.full((5,), 0.5)
    lazy = LazyDistribution(lambda: dist.Bernoulli(p), torch.Size([5]), torch.Size())
    assert lazy.sample((2,)).shape == (2, 5)
    assert pyro.sample("x", lazy).unique().tolist() in ([0.0], [1.0], [0.0, 1.0])
