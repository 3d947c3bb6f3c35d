"""Every distribution can be expanded as Pyro's own tests expand theirs; see `test_conventions`."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from convention_cases import CASES
from pyro.distributions import TorchDistribution

from pyro_gcm.distributions import LazyDistribution

cases = pytest.mark.parametrize("case", CASES)


def agree(small: Any, large: Any) -> None:
    """As in Pyro's tests: the densities of draws of both are those of both."""
    for x in (small.sample(), large.sample()):
        shape = torch.broadcast_shapes(x.shape[: x.dim() - small.event_dim], large.batch_shape)
        wide = large.log_prob(x)
        assert wide.shape == shape
        torch.testing.assert_close(small.log_prob(x).expand(shape), wide)


@cases
def test_new_batch_dimensions_are_put_in_front(case: str) -> None:
    batch, d = (3, 1), CASES[case]((3, 1))
    for kind in (torch.Size, tuple, list):
        assert d.expand(kind((4, *batch))).batch_shape == (4, *batch)
    agree(d, d.expand_by([4]))
    for shape in ((2, 1, 1), (2, 5, 3)):
        wide = d.expand(torch.Size(shape + batch))
        assert (wide.batch_shape, wide.event_shape) == (shape + batch, d.event_shape)
        assert wide.sample((6,)).shape == (6, *wide.shape())
        agree(d, wide)
        d = wide


@cases
def test_pyros_own_expansion_agrees(case: str) -> None:
    d = CASES[case]((3, 1))
    agree(d, TorchDistribution.expand(d, torch.Size((2, 3, 5))))


@cases
def test_single_batch_dimensions_are_widened(case: str) -> None:
    d = CASES[case]((3, 1))
    wide = d.expand(torch.Size((3, 5)))
    assert wide.batch_shape == (3, 5)
    agree(d, wide)
    with contextlib.suppress(NotImplementedError):
        for got, want in ((wide.mean, d.mean), (wide.variance, d.variance)):
            torch.testing.assert_close(got, want.expand(wide.shape()))
    if not isinstance(d, LazyDistribution):
        assert isinstance(wide, type(d))


@cases
def test_impossible_expansion_is_refused(case: str) -> None:
    d = CASES[case]((2,))
    for first, second in (
        ((2, 1), (4, 3)),
        ((2, 4), (2, 2, 1)),
        ((1, 2, 1), (2, 1)),
        ((3,), (1,)),
        ((3,), ()),
        ((1,), ()),
    ):
        large = d.expand(torch.Size((*first, 2)))
        with pytest.raises((RuntimeError, ValueError)):
            large.expand(torch.Size((*second, 2)))


@cases
def test_draws_of_an_expanded_distribution_are_independent(case: str) -> None:
    x = CASES[case](()).expand(torch.Size((2000, 2))).sample().reshape(2000, 2, -1)
    for column in x.nan_to_num(posinf=20.0).clamp(max=20.0).unbind(-1):
        if column.std() > 1e-9:
            assert torch.corrcoef(column.T)[0, 1].abs() < 5.0 / 2000**0.5
