"""Networks that return distributions: shapes, constraints of parameters, positive scales."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch

from pyro_gcm.nets.networks import Conditional, joined, mlp, positive

families = pytest.mark.parametrize(
    "family",
    [dist.Normal, dist.StudentT, dist.Gumbel, dist.Laplace, dist.LogNormal, dist.Beta],
    ids=lambda family: family.__name__,
)


@families
@pytest.mark.parametrize(
    ("batch_shape", "event_shape"), [((), (4,)), ((7,), (2, 3)), ((5, 7), (2, 3))]
)
def test_shapes_constraints_and_independence_of_rows(
    batch_shape: tuple[int, ...], event_shape: tuple[int, ...], family: type
) -> None:
    net = Conditional(family, 3, event_shape)
    context = torch.randn(*batch_shape, 3)
    d = net(context)
    assert (d.batch_shape, d.event_shape) == (batch_shape, event_shape)
    assert isinstance(d.base_dist, family)
    value = d.sample((2,))
    assert value.shape == (2, *batch_shape, *event_shape)
    assert d.log_prob(value).shape == (2, *batch_shape)
    last = (..., *[-1] * len(batch_shape), slice(None))
    for name, constraint in family.arg_constraints.items():
        for each in (d, net(1e4 * context)):  # also for a huge context
            assert constraint.check(getattr(each.base_dist, name)).all()
        alone = getattr(net(context[last]).base_dist, name)  # rows are independent
        whole = getattr(d.base_dist, name).reshape(-1, *event_shape)[-1]
        torch.testing.assert_close(alone, whole)


def test_parameter_with_another_constraint_uses_the_transform_of_that_constraint() -> None:
    class UniformFrom(dist.Uniform):
        """A family with a parameter in (0, 1)."""

        arg_constraints = {"low": torch.distributions.constraints.unit_interval}

        def __init__(self, low: torch.Tensor) -> None:
            super().__init__(low, 2.0)

    net = Conditional(UniformFrom, 3, (4,))
    torch.nn.init.zeros_(net.net[-1].weight)
    torch.nn.init.constant_(net.net[-1].bias, 1.5)
    low = net(torch.randn(50, 3)).base_dist.low
    torch.testing.assert_close(low, torch.tensor(1.5).sigmoid().expand(50, 4))


def test_scale_has_a_minimum_and_the_given_value_at_zero() -> None:
    raw = torch.tensor([-1e30, -100.0, 0.0, 100.0], requires_grad=True)
    scale = positive(raw)
    assert scale.tolist() == pytest.approx([0.05, 0.05, 1.0, 100.5], rel=1e-2)
    assert (scale >= 0.05).all()
    assert positive(torch.zeros(()), at_zero=0.3).item() == pytest.approx(0.3)
    assert (positive(torch.linspace(-9.0, 9.0, 100)).diff() > 0.0).all()
    scale.sum().backward()
    assert raw.grad.isfinite().all()


def test_mlp_has_the_requested_hidden_layers() -> None:
    a, b = torch.randn(7, 1, 1), torch.randn(5, 2)
    context = joined(a, b)  # concatenated after broadcasting
    assert torch.equal(context[3, 4], torch.cat([a[3, 0], b[4]]))
    for hidden, widths in ((16, [16, 16]), ((), []), ((8,), [8]), ([8, 4, 2], [8, 4, 2])):
        layers = [m for m in mlp(3, 2, hidden) if isinstance(m, torch.nn.Linear)]
        assert [layers[0].in_features, *(layer.out_features for layer in layers)] == [3, *widths, 2]
        assert mlp(3, 2, hidden)(context).shape == (7, 5, 2)
