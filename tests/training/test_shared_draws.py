"""Random numbers of parts of a batch, put together, are those of the batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pyro_gcm.training.shared_draws import SharedDraws, rows_along

ROWS = 11
PARTS = (slice(0, 4), slice(4, 8), slice(8, 11))


def _whole_and_parts(draw: Callable[[int], Tensor], dim: int) -> tuple[Tensor, list[Tensor]]:
    """The draws of all rows, and of parts of them; all from generators in the same state."""
    parts, after = [], []
    torch.manual_seed(1)
    whole = draw(ROWS)
    after.append(torch.rand(1))
    for rank, part in enumerate(PARTS):
        torch.manual_seed(1)
        with SharedDraws(part, ROWS, rank), rows_along(dim):
            parts.append(draw(part.stop - part.start))
        after.append(torch.rand(1))
    assert len(set(map(float, after))) == 1
    return whole, parts


@pytest.mark.parametrize(
    ("draw", "dim"),
    [
        (lambda n: torch.rand(n, 5), 0),
        (lambda n: torch.randn((3, n)), 1),
        (lambda n: torch.randn(size=(3, n, 2)), 1),
        (lambda n: torch.randint(9, (n,)), 0),
        (lambda n: torch.randint(2, 9, (n, 4)), 0),
        (lambda n: torch.normal(0.0, 2.0, (4, n)), 1),
        (lambda n: torch.normal(torch.ones(n, 4), 2.0), 0),
        (lambda n: torch.normal(torch.ones(n, 4), std=torch.full((4,), 2.0)), 0),
        (lambda n: torch.normal(mean=torch.ones(n), std=torch.full((n,), 2.0)), 0),
        (lambda n: torch.normal(0.0, torch.full((2, n), 2.0)), 1),
        (lambda n: torch.normal(torch.zeros(n)), 0),
        (lambda n: torch.randn_like(torch.zeros(5, n, 5)), 1),
        (lambda n: torch.rand_like(torch.zeros(5, n).t()), 0),
        (lambda n: torch.empty(n, 2).uniform_(1.0, 2.0), 0),
        (lambda n: torch.empty(2, n).exponential_(), 1),
        (lambda n: torch.distributions.Normal(torch.zeros(n), 2.0).rsample((4,)), 1),
        (lambda n: torch.distributions.Laplace(torch.zeros(n), 2.0).rsample((4,)), 1),
        (lambda n: functional.dropout(torch.ones(6, n, 4), 0.4), 1),
        (lambda n: functional.dropout(torch.ones(n, 4).t().contiguous().t(), 0.4), 0),
        (lambda n: torch.nn.Dropout(0.3)(torch.ones(n, 4)), 0),
    ],
)
def test_parts_are_those_of_the_whole(draw: Callable[[int], Tensor], dim: int) -> None:
    whole, parts = _whole_and_parts(draw, dim)
    assert torch.equal(torch.cat(parts, dim), whole)


def test_rows_are_found_without_a_name() -> None:
    torch.manual_seed(1)
    whole = torch.rand(3, ROWS, 4)
    torch.manual_seed(1)
    with SharedDraws(PARTS[1], ROWS, 1):
        # Four members, rows and columns: the rows are the last but one.
        part = torch.rand(4, 4, 4)
        assert torch.rand(5).shape == (5,)
    assert torch.equal(part.flatten()[:16], torch.cat([whole.flatten()[16:32]]))


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: torch.distributions.Gamma(torch.full((n,), 2.0), 1.0).rsample(),
        lambda n: functional.dropout1d(torch.ones(n, 9, 2)),
        lambda n: functional.dropout(torch.ones(n, 9), inplace=True),
        lambda n: 2.0 + functional.rrelu(-torch.ones(n, 9), training=True),
        lambda n: torch.nn.GRU(2, 9, 2, dropout=0.5)(torch.ones(5, n, 2))[0].detach().square(),
    ],
)
def test_other_draws_are_independent_and_leave_the_generator_alike(
    draw: Callable[[int], Tensor],
) -> None:
    draws = []
    for rank, part in enumerate(PARTS[:2]):
        torch.manual_seed(1)
        with SharedDraws(part, ROWS, rank):
            draws.append((draw(4), torch.rand(1)))
    assert not torch.equal(draws[0][0], draws[1][0])
    assert torch.equal(draws[0][1], draws[1][1])
    assert bool((draws[0][0] >= 0.0).all())


def test_gradients_pass_through_dropout() -> None:
    given = torch.ones(4, 3, requires_grad=True)
    with SharedDraws(PARTS[0], ROWS, 0):
        dropped = functional.dropout(given, 0.5)
        assert functional.dropout(given, 0.5, training=False) is given
    dropped.sum().backward()
    assert torch.equal(given.grad, dropped.detach())
