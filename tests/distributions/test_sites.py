"""What inference asks of a site of any distribution: expansions, scores, masks, types."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from convention_cases import CASES, OPTIONS
from pyro.distributions import TorchDistribution
from pyro.distributions.util import scale_and_mask

from pyro_gcm.distributions import (
    LazyDistribution,
)

cases = pytest.mark.parametrize("case", CASES)
#: Outcomes with an entropy, outcomes whose costs can be told from them, and those of no known cost.
OUTCOMES = [name for name in CASES if re.match("event|threshold|level|along|time|several", name)]
OUTCOMES.remove("event of a random revenue")
OF_UNKNOWN_COSTS = [name for name in OUTCOMES if "given" not in name]


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
def test_single_batch_dimensions_are_widened(case: str) -> None:
    d = CASES[case]((3, 1))
    agree(d, TorchDistribution.expand(d, torch.Size((2, 3, 5))))  # as Pyro itself does
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


@cases
@pytest.mark.parametrize(
    ("batch", "lead"),
    [((3, 1), (1,)), ((3, 1), (3, 4)), ((3, 1), (2, 1, 5)), ((2,), ()), ((1,), (6,))],
    ids=str,
)
def test_values_broadcast_against_the_batch(
    case: str, batch: tuple[int, ...], lead: tuple[int, ...]
) -> None:
    d = CASES[case](batch)
    value = d.sample().reshape(-1, *d.event_shape)[0].expand(lead + d.event_shape)
    shape = torch.broadcast_shapes(batch, lead)
    found = d.log_prob(value)
    assert found.shape == shape
    want = d.log_prob(value.expand(shape + d.event_shape))
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-12)


@cases
def test_a_mask_selects_scores(case: str) -> None:
    d = CASES[case]((3, 1))
    mask = torch.tensor([True, False])
    masked, x = d.mask(mask), d.expand((3, 2)).sample()
    assert (masked.batch_shape, masked.event_shape) == ((3, 2), d.event_shape)
    log_p = d.log_prob(x)
    torch.testing.assert_close(masked.log_prob(x), scale_and_mask(log_p, mask=mask))
    parts = d.score_parts(x)
    wanted = (log_p, 0, log_p) if d.has_rsample else (log_p, log_p, 0)
    selected = parts.scale_and_mask(mask=mask)
    for pairs in ((parts, wanted), (masked.score_parts(x), selected)):
        for found, want in zip(*pairs, strict=True):
            torch.testing.assert_close(*map(torch.as_tensor, (found, want)))


@cases
def test_gradients_go_through_densities_and_reparametrised_draws_alone(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case != "flow":  # whose parameters are those of a network
        monkeypatch.setitem(OPTIONS, "requires_grad", True)
    d = CASES[case]((2,))
    x = d.sample()
    assert not x.requires_grad
    assert d.log_prob(x).requires_grad != case.startswith("certain")
    if d.has_rsample:
        assert d.rsample((3,)).requires_grad


@pytest.mark.parametrize("case", OF_UNKNOWN_COSTS)
def test_costs_given_many_outcomes_are_those_given_each(case: str) -> None:
    d = CASES[case]((3, 1))
    y = d.sample((4,))
    many = d.cost_posterior(y)
    assert many.batch_shape == (4, 3, 1)
    c = many.sample()
    log_p = many.log_prob(c)
    assert log_p.isfinite().all()
    each = [d.cost_posterior(own).log_prob(cost) for own, cost in zip(y, c, strict=True)]
    torch.testing.assert_close(log_p, torch.stack(each))


@pytest.mark.parametrize("case", OUTCOMES)
def test_outcomes_whose_costs_are_asked_for_are_checked(case: str) -> None:
    with pyro.validation_enabled():
        d = CASES[case]((2,))
        with pytest.raises(ValueError, match=r"value argument|outcome"):
            d.cost_posterior(torch.full(d.shape(), math.nan).double())
        drawn = d.cost_posterior(d.sample())
        with pytest.raises(ValueError, match="value argument"):
            drawn.log_prob(torch.full(drawn.shape(), math.nan).double())


@pytest.mark.parametrize("case", OUTCOMES)
def test_no_rows_have_no_densities(case: str) -> None:
    with pyro.validation_enabled(False):
        d = CASES[case]((3, 0))
        assert d.log_prob(d.sample((4,))).shape == (4, 3, 0)


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
