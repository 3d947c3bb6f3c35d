"""Every part in the place of every other: it trains, or an error says why not."""

from __future__ import annotations

import contextlib
from typing import Any

import pyro
import pytest
import swap_matrix_document
import torch
from swap_matrix import (
    BY_CONSTRUCTOR,
    LEFT_OUT,
    OBJECTS,
    REASONS,
    ROWS,
    TRAINS,
    X_DIM,
    Combination,
    Row,
    expected,
)
from swap_matrix_document import COUNT, DOCUMENT, ESTIMATES, MARGIN, NUM_PARTICLES, STEPS, render
from torch import Tensor

from pyro_gcm import fit
from pyro_gcm.inference.training_pair import ELBOS


@pytest.mark.long(keep=8)
@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_every_combination_trains_or_is_refused_as_documented(row: Row) -> None:
    refused = set()  # by the constructor, which knows no bound
    for variant, combination in row.combinations():
        if variant in refused:
            continue
        outcome = expected(combination)
        if outcome in BY_CONSTRUCTOR:
            refused.add(variant)
            with pytest.raises(ValueError, match=REASONS[outcome].message):
                combination.build()
        else:
            trains_or_is_refused(combination, outcome)


def test_the_document_is_that_of_the_table() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == render(), f"run {swap_matrix_document.__file__}"


def test_every_reason_applies_somewhere_and_every_objective_trains() -> None:
    outcomes = {(row[:2], expected(c)) for row in ROWS for _, c in row.combinations()}
    assert {outcome for _, outcome in outcomes} == {TRAINS, *REASONS}
    assert {of for of, outcome in outcomes if outcome == TRAINS} == {row[:2] for row in ROWS}


def trains_or_is_refused(combination: Combination, outcome: str) -> None:
    """A few steps of `fit`, with all that the document promises of them."""
    model, rows = combination.build(), toy(combination.part("response"))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    losses: list[float] = []

    def watch(step: int) -> None:
        if step in (0, STEPS):
            losses.append(evaluate(combination, model, rows))

    def train() -> None:
        fit(
            model,
            *rows,
            objective=combination.objective,
            elbo=elbo(combination.bound),
            num_particles=NUM_PARTICLES,
            epochs=STEPS,
            batch_size=COUNT,
            learning_rate=0.005,
            schedule=None,
            progress=False,
            callback=watch,
        )

    def moved() -> set[str]:
        """Names of what is no longer as it was, buffers included."""
        state = model.state_dict()
        return {name for name, value in before.items() if not torch.equal(value, state[name])}

    if outcome != TRAINS:
        with pytest.raises(ValueError, match=REASONS[outcome].message):
            train()
        assert not moved(), f"{combination} was refused, but changed"
        return

    literal = combination.part("prior") == "standard" and combination.objective in (
        "conditional",
        "response_revenue",
    )
    announced = pytest.warns(UserWarning, match="is the paper's literal loss")
    with announced if literal else contextlib.nullcontext():  # any other warning is an error
        train()
    assert losses[0] - losses[-1] > MARGIN, f"{combination}: loss {losses}"  # NaN fails as well
    parameters = dict(model.named_parameters())
    trained = set(model.trained_parameters(combination.objective))
    assert moved() & set(parameters) == trained, f"{combination}: not all, or others, moved"
    assert all(p.isfinite().all() for p in parameters.values()), f"{combination}: NaN"
    prediction = model.predict(*rows[:2])
    assert prediction.shape == (COUNT,)
    assert prediction.isfinite().all(), f"{combination} predicts {prediction}"


def elbo(bound: str) -> Any:
    """What `fit` is given for a column of the table."""
    if bound in OBJECTS:
        return OBJECTS[bound](NUM_PARTICLES)
    return None if bound == LEFT_OUT else bound


def evaluate(combination: Combination, model: Any, rows: tuple[Tensor, ...]) -> float:
    """The loss that is trained, in nats a row, of the same draws before and after training."""
    pair = model.training_pair(combination.objective)
    particles = NUM_PARTICLES if pair.sampled else 1
    loss = pair.loss or elbo(combination.bound)
    if isinstance(loss, str):
        loss = ELBOS[loss](num_particles=particles, max_plate_nesting=1, vectorize_particles=True)
    loss.num_particles = particles
    repeated = [column.repeat(ESTIMATES, *(1,) * (column.dim() - 1)) for column in rows]
    with torch.random.fork_rng(), torch.no_grad(), pyro.validation_enabled(False):
        torch.manual_seed(0)
        return float(loss.loss(pair.program, pair.guide, *repeated)) / len(repeated[0])


def toy(response: str) -> tuple[Tensor, Tensor, Tensor]:
    """x, r and y of a few rows, far from unit scale; y depends on both."""
    g = torch.Generator().manual_seed(5)
    x = torch.randn(COUNT, X_DIM, generator=g)
    r = torch.rand(COUNT, 2, generator=g)
    margin = 2.0 * x[:, 0] + 4.0 * (r.sum(1) - 1.0) + 0.5 * torch.randn(COUNT, generator=g)
    if response == "quantile":
        return x, r[:, :1].clamp(0.01, 0.99), 300.0 + 50.0 * margin
    y = 300.0 + 50.0 * margin if response == "continuous" else (margin > 0.0).float()
    return x, 50.0 + 20.0 * r, y
