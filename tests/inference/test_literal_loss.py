"""The paper's literal loss cannot learn from x (a toy), and the default prior can."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from toy_rows import Rows

from pyro_gcm import GCM, fit


@pytest.fixture(scope="module")
def follows_x() -> tuple[Rows, Rows]:
    """Rows to learn from and others to score; y follows x, and r hardly matters."""
    g = torch.Generator().manual_seed(0)
    parts = []
    for n in (400, 2000):
        x, r = torch.randn(n, 2, generator=g), torch.rand(n, 1, generator=g)
        margin = 3.0 * x[:, 0] + 0.8 * (2.0 * r[:, 0] - 1.0) + 0.3 * torch.randn(n, generator=g)
        parts.append(Rows(x, r, (margin > 0).float()))
    return parts[0], parts[1]


def trained_accuracy(prior: str, follows_x: tuple[Rows, Rows], **options: Any) -> float:
    train, test = follows_x
    model = GCM(2, 1, prior=prior, num_samples=64)
    options = {"epochs": 60, "batch_size": 100, "num_particles": 16, **options}
    fit(model, *train, **options, progress=False)
    return ((model.predict(test.x, test.r) > 0.5).float() == test.y).float().mean().item()


def test_literal_loss_of_the_paper_learns_nothing_from_x(follows_x: tuple[Rows, Rows]) -> None:
    test = follows_x[1]
    by_r_alone = ((test.r[:, 0] > 0.5).float() == test.y).float().mean().item()
    with pytest.warns(UserWarning, match="literal loss: its optimum ignores x") as caught:
        accuracy = trained_accuracy("standard", follows_x)
    assert len(caught) == 1
    assert by_r_alone < 0.57
    assert accuracy < by_r_alone + 0.04


def test_conditional_prior_learns_what_the_literal_loss_cannot(
    follows_x: tuple[Rows, Rows],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trained_accuracy("conditional", follows_x) > 0.92


@pytest.mark.parametrize("elbo", ["iwae", "elbo"])
def test_tempered_prior_cures_the_literal_loss(elbo: str, follows_x: tuple[Rows, Rows]) -> None:
    accuracy = trained_accuracy("standard", follows_x, temperature=0.1, elbo=elbo)
    assert accuracy > 0.92  # without it 0.52
