"""What inference asks of a site: densities of broadcast values, score parts, masks, entropies."""

from __future__ import annotations

import math

import pytest
import torch
from convention_cases import CASES, OPTIONS
from pyro.distributions.util import scale_and_mask

cases = pytest.mark.parametrize("case", CASES)
#: Outcomes with an entropy, and with a cost posterior.
OF_EVENTS = [
    case for case in CASES if case.startswith(("event", "certain")) and "guess" not in case
]
OF_UNKNOWN_COSTS = [
    case
    for case in CASES
    if case.startswith(("event", "threshold", "level", "along", "time", "several"))
    and not ("given" in case or case == "event of a random revenue")
]


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


@pytest.mark.parametrize("case", OF_EVENTS)
def test_entropy_is_the_mean_of_minus_log_p(case: str) -> None:
    d, count = CASES[case]((2,)), 20_000
    entropy = d.entropy()
    surprise = -d.log_prob(d.sample((count,)))
    error = 5.0 * surprise.std(0) / math.sqrt(count) + 1e-12
    assert ((surprise.mean(0) - entropy).abs() <= error).all()


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
