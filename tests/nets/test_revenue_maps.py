"""Revenue maps are increasing in every revenue."""

from __future__ import annotations

import itertools
import math

import mpmath
import pytest
import torch
from torch.distributions import transforms

from pyro_gcm import GCM
from pyro_gcm.nets import Bijection, PositiveLinear, Probit, Sigmoid


@pytest.mark.parametrize("raw", [None, -1e6, -3.0, 0.0, 5.0], ids="raw={}".format)
def test_positive_linear_is_the_matrix_of_its_non_negative_weights(raw: float | None) -> None:
    for batch_shape, event_shape in (((), (4,)), ((5,), (4,)), ((7, 5), (2, 4))):
        h = PositiveLinear(3, event_shape).double()
        if raw is not None:
            torch.nn.init.constant_(h.raw_weight, raw)
        assert h.weight.shape == (*event_shape, 3)
        assert (h.weight >= 0.0).all()
        assert h.weight.isfinite().all()
        assert (h.weight > 0.0).all() or raw == -1e6
        r = torch.randn(*batch_shape, 3, dtype=torch.float64)
        torch.testing.assert_close(h(r), torch.tensordot(r, h.weight, dims=([-1], [-1])))


def test_positive_linear_weights_are_the_papers_and_start_around_one_over_m() -> None:
    h = PositiveLinear(5, (8, 8))
    weight = h.weight
    torch.testing.assert_close(weight, torch.log1p(torch.exp(10.0 * h.raw_weight)) / 10.0)
    assert weight.mean().item() == pytest.approx(0.2, rel=0.15)
    assert weight.min() < 0.05
    assert weight.max() > 0.35
    assert weight.max() <= 0.4001
    h(torch.ones(5, 5)).sum().backward()
    assert (h.raw_weight.grad > 0.0).all()


def test_probit_is_the_normal_quantile_and_infinite_at_both_ends() -> None:
    for level in (1e-12, 0.01, 0.5, 0.9, 0.999999):
        with mpmath.workdps(40):
            exact = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(level) - 1)
        r = torch.tensor([level], dtype=torch.float64)
        assert Probit()(r).item() == pytest.approx(float(exact), rel=1e-12, abs=1e-15)
    assert Probit()(torch.tensor([0.0, 1.0])).tolist() == [-math.inf, math.inf]
    levels = torch.linspace(0.0, 1.0, 10_001)
    assert Probit()(levels).dtype == torch.float32
    assert (Probit()(levels).diff() >= 0.0).all()
    assert (Probit()(levels.double())[1:-1].diff() > 0.0).all()


class Cubic(transforms.Transform):
    """A transform without a sign."""

    domain = codomain = torch.distributions.constraints.real
    bijective = True

    def _call(self, x: torch.Tensor) -> torch.Tensor:
        return x**3


AFFINE = transforms.AffineTransform
SMOOTH = {
    "sigmoid": transforms.SigmoidTransform(),
    "exp": transforms.ExpTransform(),
    "tanh": transforms.TanhTransform(),
    "softplus": transforms.SoftplusTransform(),
    "inverse of sigmoid, of sigmoid": transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.SigmoidTransform().inv]
    ),
}
OTHERS = (
    *(AFFINE(1.0, 2.0), AFFINE(0.0, torch.tensor([0.5, 2.0])), Cubic()),
    transforms.PowerTransform(torch.tensor(3.0)),
    transforms.ComposeTransform([AFFINE(0.0, -1.0), AFFINE(0.0, -3.0)]),
)
DECREASING = transforms.ComposeTransform([transforms.ExpTransform(), AFFINE(0.0, -1.0)])


@pytest.mark.parametrize("h", [Sigmoid(), *map(Bijection, SMOOTH.values())], ids=["", *SMOOTH])
def test_float32_map_does_not_decrease_between_neighbouring_floats(h: torch.nn.Module) -> None:
    for size in (1.0, 8.0):
        r = torch.empty(50_000).uniform_(-size, size)
        after = torch.nextafter(r, torch.tensor(math.inf))
        assert (h(after) >= h(r)).all()
        assert (h(r + 0.01) > h(r))[r.abs() < 5.0].all()
        # torch computes single values and vectors by different code.
        assert torch.equal(torch.stack([h(one) for one in r[:2000]]), h(r)[:2000])


def test_bijection_is_the_rising_transform_of_each_revenue() -> None:
    for transform, dtype in itertools.product(
        (*SMOOTH.values(), *OTHERS), (torch.float32, torch.float64)
    ):
        r, h = torch.rand(7, 2, dtype=dtype), Bijection(transform)
        assert h(r).dtype == dtype
        torch.testing.assert_close(h(r), transform(r), rtol=1e-5, atol=1e-6)
        assert (h(r + 0.1) > h(r)).all()
        torch.testing.assert_close(Sigmoid()(r), 1.0 / (1.0 + (-r).exp()))


def test_transforms_that_are_not_increasing_are_refused() -> None:
    falls = "be increasing, but it falls"
    for transform, reason in (
        (AFFINE(0.0, -2.0), falls),
        (AFFINE(0.0, torch.tensor([1.0, -1.0])), falls),
        (transforms.PowerTransform(torch.tensor(-1.0)), falls),
        (DECREASING, falls),
        (transforms.AbsTransform(), falls),
        (transforms.StickBreakingTransform(), "give values of shape"),
    ):
        with pytest.raises(ValueError, match=f"revenue_map must {reason}"):
            GCM(1, 2, costs=2, revenue_map=transform)
