"""Rejection: exact draws, as many proposals as they take, and rows that are given up in time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyro.distributions as dist
import pytest
import torch
from scipy import stats
from torch import Tensor

from pyro_gcm.distributions.base import Left
from pyro_gcm.prediction import proposals as module
from pyro_gcm.prediction.draws import Draws, Rows
from pyro_gcm.prediction.proposals import Tally, rejection

Probability = Callable[[Draws, Rows], Tensor]


def rows_of(values: list[float]) -> Rows:
    """One row for each value, which is its only covariate."""
    x = torch.tensor(values, dtype=torch.float64).unsqueeze(1)
    return Rows(x, torch.zeros_like(x))


def propose(rows: Rows, count: int) -> Draws:
    """z uniform on (x, x + 1), so that a draw tells its row, and a cost with location z."""
    z = rows.x + torch.rand(count, *rows.x.shape, dtype=torch.float64)
    cost = dist.Normal(z, 1.0 + z.square()).to_event(1)
    return Draws(count, {"z": z}, {"c": Left("c", cost)})


def fraction(draws: Draws, rows: Rows) -> Tensor:
    """The part of z that was drawn, [N, b]."""
    return (draws.values["z"] - rows.x)[..., 0]


def run(
    probability: Probability, rows: Rows, count: int, weighted: int = 4096
) -> tuple[Draws, Tally]:
    torch.manual_seed(0)
    return rejection(propose, probability, rows, count, weighted)


def cubed(draws: Draws, rows: Rows) -> Tensor:
    """z^3 over a factor that grows with the row: rates of 1/4 to 1/40."""
    return fraction(draws, rows) ** 3 / (1.0 + rows.x[:, 0])


@pytest.mark.parametrize("at_once", [1 << 15, 700], ids=["large batches", "small batches"])
def test_draws_have_the_density_that_their_probabilities_give(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROPOSALS_AT_ONCE", at_once)
    rows = rows_of([0.0, 3.0, 9.0, 0.0, 1.0])
    draws, tally = run(cubed, rows, 2000)
    assert (tally.accepted == 2000).all()
    fractions = fraction(draws, rows)
    for row in range(5):  # the density is 4 z^3, the distribution function z^4
        assert stats.kstest(fractions[:, row] ** 4, "uniform").pvalue > 1e-4
    lagged = torch.corrcoef(torch.stack([fractions[1:, 0], fractions[:-1, 0]]))[0, 1]
    between = torch.corrcoef(fractions.T).triu(1).abs().max()
    assert max(abs(float(lagged)), float(between)) < 4.5 / 2000**0.5
    expected = 0.25 / (1.0 + rows.x[:, 0])
    assert ((tally.rate / expected - 1.0).abs() < 4.5 * tally.rate_error).all()


# Rows that are given up


@pytest.mark.parametrize("p", [0.0, 1e-200, math.nan], ids=str)
def test_proposals_that_are_never_accepted_end(p: float) -> None:
    def never(draws: Draws, rows: Rows) -> Tensor:
        return torch.full_like(fraction(draws, rows), p)

    draws, tally = run(never, rows_of([0.0, 1.0]), 100)
    assert (tally.accepted == 0).all()
    assert draws.values["z"].shape == (100, 2, 1)
    assert (tally.proposed < 10_000).all()
