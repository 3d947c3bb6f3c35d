"""Layers of members against those of the package `tabm`, and their bits in any batch."""

from __future__ import annotations

import pytest
import tabm
import torch
from pyro.distributions import Logistic
from torch import Tensor
from torch.nn.utils.parametrizations import weight_norm

from pyro_gcm import GCM, MemberGCM
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.nets import MemberEncoder
from pyro_gcm.nets.member_training import ThinnedReLU, planes
from pyro_gcm.nets.members import FirstLayer, MemberCosts, NextLayer, OwnLayer, parts_of

K, BATCH, IN_DIM, WIDTH = 3, 5, 4, 6


def reference(layer: FirstLayer | NextLayer) -> tabm.LinearBatchEnsemble:
    made = tabm.LinearBatchEnsemble(IN_DIM, WIDTH, k=K, scaling_init="ones")
    with torch.no_grad():
        made.weight.copy_(layer.weight)
        if layer.r is not None:
            made.r.copy_(layer.r)
        made.s.copy_(layer.s)
        made.bias.copy_(layer.bias)
    return made


@pytest.mark.parametrize("scaling", ["input", "output"])
def test_first_layer_is_a_batch_ensemble_of_shared_features(scaling: str) -> None:
    layer = FirstLayer(IN_DIM, WIDTH, K, scaling)
    x = torch.randn(BATCH, IN_DIM)
    wanted = reference(layer)(x[:, None].expand(-1, K, -1)).movedim(1, 0)
    torch.testing.assert_close(layer(x, torch.arange(IN_DIM)), wanted)
    some = torch.tensor([0, 2])
    zeroed = torch.zeros_like(x).index_copy(1, some, x[:, some])
    torch.testing.assert_close(layer(x[:, some], some), layer(zeroed, torch.arange(IN_DIM)))


def test_next_layer_is_a_batch_ensemble() -> None:
    layer = NextLayer(IN_DIM, WIDTH, K)
    torch.nn.init.normal_(layer.r)
    torch.nn.init.normal_(layer.s)
    a = torch.randn(K, BATCH, IN_DIM)
    torch.testing.assert_close(layer(a), reference(layer)(a.movedim(0, 1)).movedim(1, 0))


def test_own_layer_is_one_layer_for_each_member() -> None:
    layer = OwnLayer(IN_DIM, WIDTH, K)
    made = tabm.LinearEnsemble(IN_DIM, WIDTH, k=K)
    with torch.no_grad():
        made.weight.copy_(layer.weight)
        made.bias.copy_(layer.bias)
    a = torch.randn(K, BATCH, IN_DIM)
    torch.testing.assert_close(layer(a), made(a.movedim(0, 1)).movedim(1, 0))


@torch.no_grad()
def test_layers_start_around_0_and_keep_the_size_of_their_inputs() -> None:
    torch.manual_seed(2)
    for scaling in ("input", "output"):
        first = FirstLayer(64, 400, K, scaling)
        assert first.bias.abs().max() <= 0.5
        assert abs(float(first.bias.mean())) < 0.05
        signs = first.r if scaling == "input" else first.s
        assert (signs.abs() == 1.0).all()
        assert abs(float(signs.mean())) < 0.25
        assert float(first(torch.randn(200, 64), torch.arange(64)).std()) == pytest.approx(
            1.0, abs=0.15
        )
    # Half of what a ReLU lets through has the size of what went in.
    out = NextLayer(64, 400, K)(torch.randn(K, 200, 64).relu())
    assert float(out.square().mean()) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("scaling", ["input", "output"])
def test_what_members_multiply_follows_every_change_of_a_weight(scaling: str) -> None:
    torch.manual_seed(1)
    encoder, x = MemberEncoder(7, K, (13, 9), scaling=scaling), torch.randn(32, 7)
    for _ in range(2):
        for layer in (encoder.first, *encoder.layers):
            for weight in layer.parameters():
                with torch.no_grad():
                    encoder.every(x)
                    weight.data.mul_(1.5)  # of which torch keeps no count
                    found = encoder.every(x)
                wanted = encoder.every(x).detach()
                assert (found - wanted).abs().max() <= 1e-4 * wanted.abs().max()
        weight_norm(encoder.layers[0])  # then its weight is made of another module's


def test_gradients_by_hand_are_those_of_differences() -> None:
    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64).requires_grad_()

    def thinned(a: Tensor) -> Tensor:
        torch.manual_seed(0)
        found: Tensor = ThinnedReLU(0.3)(1.0 * a)
        return found

    for function, inputs in (
        (planes, (leaf(2, 5, 3), leaf(2, 3, 4), leaf(2, 4))),
        (thinned, (leaf(2, 5, 8),)),
    ):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)
    assert 0 < (thinned(torch.ones(1000)) == 0.0).sum() < 1000


def test_what_a_step_spares_has_the_gradients_of_the_plain_way() -> None:
    """z and e_z(x) as they were put together, and the steepness of costs in place of the scale."""
    torch.manual_seed(3)
    encoder, costs = MemberEncoder(7, K, (13, 9)), MemberCosts(Logistic, K, 9, (2, 3))
    z, x, y = torch.eye(K)[:, None], torch.randn(32, 7), (torch.arange(32) % 2).float()
    revenue, found = torch.randn(K, 32, 2, 3), []
    for spares in (True, False):
        whole = encoder(z, x)
        p_c = costs(whole if spares else 1.0 * whole)
        if not spares:
            del p_c.base_dist.steepness
        loss = OrderEvent(p_c, revenue).log_prob_for_loss(y).sum()
        found.append(torch.autograd.grad(loss, [*encoder.parameters(), *costs.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    changed = encoder(z, x)
    assert parts_of(changed, K)[0] is z
    assert (parts_of(changed.add_(1.0), K)[0] == z.expand(-1, 32, -1) + 1.0).all()


def test_members_are_trained_under_autocast_also_where_the_gradient_is_taken_outside() -> None:
    layer, a = OwnLayer(3, 4, members=2), torch.randn(2, 5, 3)
    with torch.autocast("cpu", torch.bfloat16):
        total = layer(a).square().sum()
    found = torch.autograd.grad(total, [*layer.parameters()])
    wanted = torch.autograd.grad(layer(a).square().sum(), [*layer.parameters()])
    assert [each.dtype for each in found] == [torch.float32] * 2
    torch.testing.assert_close(found, wanted, rtol=0.1, atol=0.5)


@pytest.mark.parametrize("kind", [GCM, MemberGCM])
def test_layers_of_no_units_are_refused_by_name(kind: type) -> None:
    for hidden in (0, -1, [4, 0]):
        with pytest.raises(ValueError, match="hidden must be an integer of at least 1, got"):
            kind(3, 2, hidden=hidden)
    with pytest.raises(ValueError, match="members must be an integer of at least 1, got 0"):
        MemberGCM(3, 2, members=0)
