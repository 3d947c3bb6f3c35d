"""Revenue maps rise with every revenue, in every output."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch

from pyro_gcm.nets import Identity, PositiveLinear, Probit


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(20250721)


def test_identity_returns_the_revenues_themselves() -> None:
    r = torch.randn(5, 3)
    assert Identity()(r) is r


@pytest.mark.parametrize("event_shape", [(4,), (2, 4)], ids=["K", "G,K"])
@pytest.mark.parametrize("batch_shape", [(), (5,), (7, 5)], ids=str)
def test_positive_linear_is_the_matrix_of_its_weights(
    batch_shape: tuple[int, ...], event_shape: tuple[int, ...]
) -> None:
    h = PositiveLinear(3, event_shape).double()
    r = torch.randn(*batch_shape, 3, dtype=torch.float64)
    assert h.weight.shape == (*event_shape, 3)
    mapped = h(r)
    assert mapped.shape == (*batch_shape, *event_shape)
    for index in torch.cartesian_prod(*(torch.arange(n) for n in event_shape)).reshape(
        -1, len(event_shape)
    ):
        at = (..., *index.tolist())
        torch.testing.assert_close(mapped[at], (r * h.weight[at[1:]]).sum(-1))


@pytest.mark.parametrize("raw", [None, -3.0, 0.0, 5.0], ids="raw={}".format)
def test_positive_linear_weights_stay_positive_and_the_map_increasing(raw: float | None) -> None:
    h = PositiveLinear(3, (2, 4)).double()
    if raw is not None:
        torch.nn.init.constant_(h.raw_weight, raw)
    assert (h.weight > 0.0).all()
    r = torch.randn(100, 3, dtype=torch.float64)
    for column in range(3):
        more = r.clone()
        more[:, column] += 0.1
        assert (h(more) > h(r)).all() if raw != -3.0 else (h(more) >= h(r)).all()


def test_positive_linear_never_falls_however_negative_its_raw_weights() -> None:
    h = PositiveLinear(3, (4,))
    torch.nn.init.constant_(h.raw_weight, -1e6)
    assert (h.weight >= 0.0).all()
    assert h.weight.isfinite().all()


def test_positive_linear_weight_is_the_softplus_of_the_paper() -> None:
    h = PositiveLinear(3, (4,)).double()
    torch.testing.assert_close(h.weight, torch.log1p(torch.exp(10.0 * h.raw_weight)) / 10.0)


def test_positive_linear_starts_with_unequal_weights_around_one_over_m() -> None:
    weight = PositiveLinear(5, (8, 8)).weight
    assert weight.mean().item() == pytest.approx(0.2, rel=0.15)
    assert weight.min() < 0.05
    assert weight.max() > 0.35
    assert weight.max() <= 0.4001


def test_positive_linear_trains_its_weights() -> None:
    h = PositiveLinear(3, (2, 4))
    h(torch.ones(5, 3)).sum().backward()
    assert (h.raw_weight.grad > 0.0).all()


@pytest.mark.parametrize("level", [1e-12, 0.01, 0.5, 0.9, 0.999999], ids="{:g}".format)
def test_probit_is_the_normal_quantile(level: float) -> None:
    r = torch.tensor([level], dtype=torch.float64)
    with mpmath.workdps(40):
        exact = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(level) - 1)
    assert Probit()(r).item() == pytest.approx(float(exact), rel=1e-12, abs=1e-15)
    assert Probit()(r.float()).dtype == torch.float32


def test_probit_reaches_both_ends_and_never_falls() -> None:
    assert Probit()(torch.tensor([0.0, 1.0])).tolist() == [-math.inf, math.inf]
    levels = torch.linspace(0.0, 1.0, 10_001)
    assert (Probit()(levels).diff() >= 0.0).all()
    assert (Probit()(levels.double())[1:-1].diff() > 0.0).all()
