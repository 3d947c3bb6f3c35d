"""What inference asks of a site of any distribution: expansions, scores, masks, types."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pyro
import pytest
import torch
from convention_cases import CASES, OPTIONS
from pyro.distributions import TorchDistribution

#: Outcomes whose costs can be told from them.
OUTCOMES = [name for name in CASES if re.match("event|threshold|level|along|time|several", name)]
OUTCOMES.remove("event of a random revenue")


def agree(small: Any, large: Any) -> None:
    """As in Pyro's tests: the densities of draws of both are those of both."""
    for x in (small.sample(), large.sample()):
        shape = torch.broadcast_shapes(x.shape[: x.dim() - small.event_dim], large.batch_shape)
        wide = large.log_prob(x)
        assert wide.shape == shape
        torch.testing.assert_close(small.log_prob(x).expand(shape), wide)


def check_that_new_batch_dimensions_are_put_in_front(case: str) -> None:
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


def check_that_single_batch_dimensions_are_widened(case: str) -> None:
    d = CASES[case]((3, 1))
    agree(d, TorchDistribution.expand(d, torch.Size((2, 3, 5))))  # as Pyro itself does
    wide = d.expand(torch.Size((3, 5)))
    assert wide.batch_shape == (3, 5)
    agree(d, wide)
    with contextlib.suppress(NotImplementedError):
        for got, want in ((wide.mean, d.mean), (wide.variance, d.variance)):
            torch.testing.assert_close(got, want.expand(wide.shape()))
    assert isinstance(wide, type(d))


def check_that_values_broadcast_against_the_batch(case: str) -> None:
    leads = (((3, 1), (1,)), ((3, 1), (3, 4)), ((3, 1), (2, 1, 5)), ((2,), ()), ((1,), (6,)))
    for batch, lead in leads:
        d = CASES[case](batch)
        value = d.sample().reshape(-1, *d.event_shape)[0].expand(lead + d.event_shape)
        shape = torch.broadcast_shapes(batch, lead)
        found = d.log_prob(value)
        assert found.shape == shape
        want = d.log_prob(value.expand(shape + d.event_shape))
        torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-12)


def check_that_gradients_go_through_densities_and_reparametrised_draws_alone(case: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if case != "flow":  # whose parameters are those of a network
            patch.setitem(OPTIONS, "requires_grad", True)
        d = CASES[case]((2,))
    x = d.sample()
    assert not x.requires_grad
    assert d.log_prob(x).requires_grad != case.startswith("certain")
    if d.has_rsample:
        assert d.rsample((3,)).requires_grad


def check_that_costs_given_many_outcomes_are_those_given_each(case: str) -> None:
    if case not in OUTCOMES or "given" in case:
        return
    d = CASES[case]((3, 1))
    y = d.sample((4,))
    many = d.cost_posterior(y)
    assert many.batch_shape == (4, 3, 1)
    c = many.sample()
    log_p = many.log_prob(c)
    assert log_p.isfinite().all()
    each = [d.cost_posterior(own).log_prob(cost) for own, cost in zip(y, c, strict=True)]
    torch.testing.assert_close(log_p, torch.stack(each))


def check_that_no_rows_have_no_densities(case: str) -> None:
    if case not in OUTCOMES:
        return
    with pyro.validation_enabled(False):
        d = CASES[case]((3, 0))
        assert d.log_prob(d.sample((4,))).shape == (4, 3, 0)


@pytest.mark.parametrize("case", CASES)
def test_a_site_of_any_distribution_is_as_inference_wants_it(case: str) -> None:
    for name, check in globals().items():
        if name.startswith("check_that"):
            torch.manual_seed(0)
            check(case)
