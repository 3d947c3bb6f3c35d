"""Revenue maps are increasing in every revenue."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from torch.distributions import transforms

from pyro_gcm.nets import Bijection, PositiveLinear, Probit, Sigmoid


@pytest.mark.parametrize("event_shape", [(4,), (2, 4)], ids=["K", "G,K"])
@pytest.mark.parametrize("batch_shape", [(), (5,), (7, 5)], ids=str)
def test_positive_linear_is_the_matrix_of_its_weights(
    batch_shape: tuple[int, ...], event_shape: tuple[int, ...]
) -> None:
    h = PositiveLinear(3, event_shape).double()
    r = torch.randn(*batch_shape, 3, dtype=torch.float64)
    assert h.weight.shape == (*event_shape, 3)
    wanted = torch.tensordot(r, h.weight, dims=([-1], [-1]))
    torch.testing.assert_close(h(r), wanted)


@pytest.mark.parametrize("raw", [None, -1e6, -3.0, 0.0, 5.0], ids="raw={}".format)
def test_positive_linear_has_non_negative_weights_and_is_increasing(raw: float | None) -> None:
    h = PositiveLinear(3, (2, 4)).double()
    if raw is not None:
        torch.nn.init.constant_(h.raw_weight, raw)
    assert (h.weight >= 0.0).all()
    assert h.weight.isfinite().all()
    assert (h.weight > 0.0).all() or raw == -1e6
    r = torch.randn(100, 3, dtype=torch.float64)
    for column in range(3):
        more = r.clone()
        more[:, column] += 0.1
        assert (h(more) > h(r)).all() if raw not in (-1e6, -3.0) else (h(more) >= h(r)).all()


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


@pytest.mark.parametrize("quantile_level", [1e-12, 0.01, 0.5, 0.9, 0.999999], ids="{:g}".format)
def test_probit_is_the_normal_quantile_and_infinite_at_both_ends(quantile_level: float) -> None:
    r = torch.tensor([quantile_level], dtype=torch.float64)
    with mpmath.workdps(40):
        exact = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(quantile_level) - 1)
    assert Probit()(r).item() == pytest.approx(float(exact), rel=1e-12, abs=1e-15)
    assert Probit()(r.float()).dtype == torch.float32
    assert Probit()(torch.tensor([0.0, 1.0])).tolist() == [-math.inf, math.inf]
    levels = torch.linspace(0.0, 1.0, 10_001)
    assert (Probit()(levels).diff() >= 0.0).all()
    assert (Probit()(levels.double())[1:-1].diff() > 0.0).all()


class Cubic(transforms.Transform):
    """A transform without a sign."""

    domain = codomain = torch.distributions.constraints.real
    bijective = True

    def _call(self, x: torch.Tensor) -> torch.Tensor:
        return x**3


AFFINE = transforms.AffineTransform
ACCEPTED = {
    "affine": AFFINE(1.0, 2.0),
    "by column": AFFINE(0.0, torch.tensor([0.5, 2.0])),
    "power": transforms.PowerTransform(torch.tensor(3.0)),
    "decreasing twice": transforms.ComposeTransform([AFFINE(0.0, -1.0), AFFINE(0.0, -3.0)]),
    "no sign": Cubic(),
}
DECREASING = transforms.ComposeTransform([transforms.ExpTransform(), AFFINE(0.0, -1.0)])
BIJECTIONS = {
    "sigmoid": transforms.SigmoidTransform(),
    "exp": transforms.ExpTransform(),
    "tanh": transforms.TanhTransform(),
    "softplus": transforms.SoftplusTransform(),
    "inverse of sigmoid, of sigmoid": transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.SigmoidTransform().inv]
    ),
}


@pytest.mark.parametrize(
    "h", [Sigmoid(), *map(Bijection, BIJECTIONS.values())], ids=["Sigmoid", *BIJECTIONS]
)
@pytest.mark.parametrize("size", [1.0, 8.0])
@pytest.mark.parametrize("values", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_float32_map_does_not_decrease_between_neighbouring_floats(
    values: int, size: float, h: torch.nn.Module
) -> None:
    r = torch.empty(values).uniform_(-size, size)
    after = torch.nextafter(r, torch.tensor(math.inf))
    assert (h(after) >= h(r)).all()
    assert (h(r + 0.01) > h(r))[r.abs() < 5.0].all()
    # torch computes single values and vectors by different code.
    assert torch.equal(torch.stack([h(one) for one in r[:2000]]), h(r)[:2000])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", BIJECTIONS | ACCEPTED)
def test_bijection_is_the_rising_transform_of_each_revenue(name: str, dtype: torch.dtype) -> None:
    transform = (BIJECTIONS | ACCEPTED)[name]
    r = torch.rand(7, 2, dtype=dtype)
    mapped = Bijection(transform)(r)
    assert mapped.dtype == dtype
    torch.testing.assert_close(mapped, transform(r), rtol=1e-5, atol=1e-6)
    assert (Bijection(transform)(r + 0.1) > mapped).all()
    if name == "sigmoid":
        torch.testing.assert_close(Sigmoid()(r), 1.0 / (1.0 + (-r).exp()))


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (AFFINE(0.0, -2.0), "increasing, got AffineTransform.* with sign -1"),
        (AFFINE(0.0, 0.0), "increasing, got AffineTransform"),
        (AFFINE(0.0, torch.tensor([1.0, -1.0])), r"sign \[1.0, -1.0\]"),
        (transforms.PowerTransform(torch.tensor(-1.0)), "increasing, got PowerTransform"),
        (DECREASING, "increasing, got ComposeTransform"),
        (transforms.AbsTransform(), "a bijection, got AbsTransform"),
        (transforms.StickBreakingTransform(), "each revenue alone, got StickBreakingTransform"),
    ],
    ids=["negative", "constant", "one column", "power", "composed", "no bijection", "mixing"],
)
def test_transforms_that_are_not_increasing_are_refused(
    transform: transforms.Transform, reason: str
) -> None:
    with pytest.raises(ValueError, match=f"revenue_map must .*{reason}"):
        Bijection(transform)
    with pytest.raises(TypeError, match="revenue_map must be a torch Transform, got <built-in"):
        Bijection(torch.exp)  # type: ignore[arg-type]
