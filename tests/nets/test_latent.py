"""Networks from a context to a distribution of z that Pyro programs can use."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate

from pyro_gcm.nets import (
    ConditionalCategorical,
    ConditionalFlow,
    ConditionalMixture,
    ConditionalMultivariateNormal,
    StandardNormal,
)

CONTINUOUS = [ConditionalFlow, ConditionalMixture, ConditionalMultivariateNormal]
Network = Callable[..., Any]

continuous = pytest.mark.parametrize("network", CONTINUOUS, ids=lambda n: n.__name__)
networks = pytest.mark.parametrize(
    "network", [*CONTINUOUS, ConditionalCategorical], ids=lambda n: n.__name__
)


def test_standard_normal_ignores_its_context_and_moves_with_its_module() -> None:
    prior = StandardNormal(3)
    assert set(prior.state_dict()) == {"loc", "scale"}
    assert list(prior.parameters()) == []
    for context in (None, torch.randn(7, 2)):
        z = prior(context)
        assert (z.batch_shape, z.event_shape) == ((), (3,))
        assert torch.equal(z.base_dist.loc, torch.zeros(3))
        assert torch.equal(z.base_dist.scale, torch.ones(3))
    assert prior.to(torch.float64)().sample().dtype == torch.float64
    with pyro.validation_enabled(False):  # meta tensors have no values to check
        assert prior.to("meta")().base_dist.loc.device.type == "meta"


@networks
@pytest.mark.parametrize(("batch_shape", "hidden"), [((), 16), ((7,), (8,)), ((5, 7), ())])
def test_shapes_are_those_of_the_context_and_of_z(
    batch_shape: tuple[int, ...], hidden: Any, network: Network
) -> None:
    d = network(3, 4, hidden=hidden)(torch.randn(*batch_shape, 3))
    assert (d.batch_shape, d.event_shape) == (batch_shape, (4,))
    assert d.event_dim == 1
    for sample_shape in ((), (2,), (2, 3)):
        z = d.sample(torch.Size(sample_shape))
        assert z.shape == (*sample_shape, *batch_shape, 4)
        assert not z.requires_grad
        assert d.log_prob(z).shape == (*sample_shape, *batch_shape)
    assert d.support.check(d.sample()).all()


@networks
def test_distributions_are_expanded_and_masked_networks_copied_and_moved(network: Network) -> None:
    d = network(3, 4)(torch.randn(7, 3))
    wide = d.expand((5, 7))
    assert type(wide) is type(d)
    z = wide.sample()
    assert z.shape == (5, 7, 4)
    torch.testing.assert_close(wide.log_prob(z), d.log_prob(z))
    masked = d.mask(False)
    assert masked.has_rsample == d.has_rsample
    assert torch.equal(masked.log_prob(masked.sample()), torch.zeros(7))
    net = network(3, 4).double()
    context = torch.randn(7, 3, dtype=torch.float64)
    z = net(context).sample()
    assert z.dtype == torch.float64
    whole = net(context).log_prob(z)
    assert whole.dtype == torch.float64
    torch.testing.assert_close(net(context[2]).log_prob(z[2]), whole[2])  # rows are independent
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(other(context).log_prob(z), whole)


@pytest.mark.long(keep=2)
@continuous
@pytest.mark.parametrize("dim", [1, 3])
def test_vectorised_particles_train_every_parameter_finitely(dim: int, network: Network) -> None:
    net = network(3, dim)
    context, target = torch.randn(7, 3), torch.randn(7, dim)

    def model() -> None:
        with pyro.plate("data", 7):
            z = pyro.sample("z", dist.Normal(torch.zeros(dim), 1.0).to_event(1))
            pyro.sample("y", dist.Normal(z, 0.5).to_event(1), obs=target)

    def guide() -> None:
        pyro.module("net", net)
        with pyro.plate("data", 7):
            assert pyro.sample("z", net(context)).shape == (4, 7, dim)

    elbo = Trace_ELBO(num_particles=4, vectorize_particles=True, max_plate_nesting=1)
    with pyro.validation_enabled():
        elbo.loss_and_grads(model, guide)
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0.0).any(), name
    for size in (0.0, 1e3):  # densities and gradients are finite for a huge context, too
        net.zero_grad()
        d = net(size * torch.randn(500, 3))
        (d.log_prob(d.rsample()).mean() + d.rsample().square().mean()).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())
    losses = []
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), elbo)
    for _ in range(40):
        losses.append(svi.step())
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])


def test_full_covariance_is_initially_nearly_diagonal_and_can_be_trained() -> None:
    net = ConditionalMultivariateNormal(3, 4)
    context = torch.randn(200, 3)
    tril = net(context).scale_tril
    row, column = torch.tril_indices(4, 4, -1)
    below = tril[:, row, column]
    assert 0.0 < below.abs().mean() < 0.1
    assert (tril.diagonal(dim1=-2, dim2=-1) >= 0.05).all()
    assert torch.equal(tril, tril.tril())
    below.sum().backward()
    assert (net.net[-1].weight.grad[8:] != 0.0).all()


def test_mixture_weights_depend_on_the_context_and_components_do_not() -> None:
    net = ConditionalMixture(3, 2, components=5)
    d = net(torch.randn(200, 3))
    assert d.component_logits.shape == (200, 5)
    assert (d.component_logits.std(0) > 0.0).all()
    assert (d.locs == net.locs).all()
    assert (d.coord_scale == net.scales).all()
    assert torch.equal(net.scales, torch.ones(5, 2))
    assert torch.cdist(net.locs, net.locs)[~torch.eye(5, dtype=torch.bool)].min() > 0.1
    starts = torch.stack([ConditionalMixture(3, 2).locs for _ in range(200)])
    assert starts.std().item() == pytest.approx(1.5, rel=0.1)


def test_categorical_enumeration_is_the_exact_sum_over_the_classes() -> None:
    net = ConditionalCategorical(3, 4)
    context, y = torch.randn(7, 3), torch.randn(7)
    centre = torch.randn(4)

    @config_enumerate
    def model() -> None:
        pyro.module("net", net)
        with pyro.plate("data", 7):
            z = pyro.sample("z", net(context))
            assert z.dtype == torch.float32
            pyro.sample("y", dist.Normal(z @ centre, 1.0), obs=y)

    def guide() -> None:
        pass

    loss = TraceEnum_ELBO(max_plate_nesting=1).differentiable_loss(model, guide)
    joint = net.net(context).log_softmax(-1) + dist.Normal(centre, 1.0).log_prob(y.unsqueeze(-1))
    torch.testing.assert_close(loss, -joint.logsumexp(-1).sum())


@pytest.mark.parametrize(
    ("network", "argument", "value"),
    [
        (ConditionalMixture, "components", 0),
        (ConditionalCategorical, "categories", 1),
        (ConditionalFlow, "transforms", 0),
    ],
    ids=["components", "categories", "transforms"],
)
def test_invalid_sizes_are_refused(network: Network, argument: str, value: int) -> None:
    sizes = {"in_dim": 3, argument: value}
    if argument != "categories":
        sizes["dim"] = 2
    with pytest.raises(ValueError, match=f"{argument} must be .* got {value}"):
        network(**sizes)
