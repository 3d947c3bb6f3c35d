"""Every part in the place of every other: it trains, or an error says why not."""

from __future__ import annotations

import contextlib
import copy
import itertools
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
import zoo
from swap_matrix import (
    ALL,
    BY_CONSTRUCTOR,
    COUNT,
    ESTIMATES,
    LEFT_OUT,
    MARGIN,
    NUM_PARTICLES,
    OBJECTS,
    REASONS,
    STEPS,
    TRAINS,
    Combination,
    expected,
    section,
)
from torch import Tensor

from pyro_gcm import fit
from pyro_gcm.inference.elbo import ELBOS
from pyro_gcm.inference.scored import Scored

#: A few steps from the start, a bound may still be far from what one prediction for all rows has.
pytestmark = pytest.mark.filterwarnings("ignore:training ended with a loss of")
COMBINATIONS = list(itertools.chain(*ALL.values()))


def pairs(combination: Combination) -> set[frozenset[Any]]:
    """Every two choices of a combination: for parts, the objective and the bound."""
    choices = [*combination.parts.items(), *combination._asdict().items()]
    return set(map(frozenset, itertools.combinations([c for c in choices if c[0] != "parts"], 2)))


def pairwise_cover(combinations: list[Combination]) -> list[Combination]:
    """Few of the combinations, with every pair that is in any: the one with most is taken next."""
    left = {i: pairs(combination) for i, combination in enumerate(combinations)}
    cover = []
    while left:
        best = max(left, key=lambda i: len(left[i]))
        cover.append(combinations[best])
        seen = left.pop(best)
        left = {i: rest for i, found in left.items() if (rest := found - seen)}
    return cover


TRAINED = [combination for combination in COMBINATIONS if expected(combination) == TRAINS]
COVER = pairwise_cover(TRAINED)


def test_every_pair_of_choices_that_can_train_is_among_those_that_are_trained() -> None:
    assert set().union(*map(pairs, COVER)) == set().union(*map(pairs, TRAINED))
    assert len(COVER) < len(TRAINED) // 12


@pytest.mark.parametrize(
    "combination", COVER, ids=lambda c: "-".join([c.kind.__name__, c.objective, c.bound])
)
def test_every_pair_of_choices_trains(combination: Combination) -> None:
    trains(combination)


def test_every_reason_is_given_before_anything_has_changed() -> None:
    for reason in REASONS:
        is_refused(next(c for c in COMBINATIONS if expected(c) == reason), reason)


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("cell", ALL, ids="-".join)
def test_every_combination_trains_or_is_refused_as_documented(cell: tuple[str, str]) -> None:
    for combination in ALL[cell]:
        outcome = expected(combination)
        trains(combination) if outcome == TRAINS else is_refused(combination, outcome)


def test_the_catalogue_has_every_reason_and_the_numbers_of_combinations() -> None:
    catalogue = Path(__file__).parents[2] / "notebooks" / "catalogue.md"
    assert section() in catalogue.read_text(encoding="utf-8"), "run swap_matrix.py"


def test_every_reason_applies_somewhere_and_every_objective_trains() -> None:
    outcomes = {cell: set(map(expected, ALL[cell])) for cell in ALL}
    assert set().union(*outcomes.values()) == {TRAINS, *REASONS}
    # p(z) of members says nothing of x
    never = [cell for cell, found in outcomes.items() if TRAINS not in found]
    assert never == [("MemberGCM", "joint")]


def is_refused(combination: Combination, reason: str) -> None:
    """By the constructor, or by `fit` before anything in the model has changed."""
    if reason in BY_CONSTRUCTOR:
        with pytest.raises(ValueError, match=REASONS[reason].message):
            combination.build()
        return
    model = combination.build()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=REASONS[reason].message):
        train(combination, model)
    assert not moved(model, before), f"{combination} was refused, but changed"


def trains(combination: Combination) -> None:
    """A few steps of `fit`, with all that the document promises of them."""
    model, losses = combination.build(), []
    before = copy.deepcopy(model.state_dict())

    def watch(step: int) -> None:
        if step in (0, STEPS):
            losses.append(evaluate(combination, model))

    literal = combination[1] == "conditional" and combination.part("prior") == "standard"
    announced = pytest.warns(UserWarning, match="is the paper's literal loss")
    with announced if literal else contextlib.nullcontext():  # any other warning is an error
        train(combination, model, watch)
    assert losses[0] - losses[-1] > MARGIN, f"{combination}: loss {losses}"  # NaN fails as well
    parameters = dict(model.named_parameters())
    trained = set(model.trained_parameters(combination.objective))
    assert moved(model, before) & set(parameters) == trained, f"{combination}: not all, or others"
    assert all(p.isfinite().all() for p in parameters.values()), f"{combination}: NaN"
    prediction = model.predict(*rows(combination)[:2])
    assert prediction.shape == (COUNT,)
    assert prediction.isfinite().all(), f"{combination} predicts {prediction}"


def train(combination: Combination, model: Any, watch: Any = None) -> None:
    """A few steps of `fit`."""
    fit(
        model,
        *rows(combination),
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


def moved(model: Any, before: dict[str, Tensor]) -> set[str]:
    """Names of what is no longer as it was, buffers included."""
    state = model.state_dict()
    return {name for name, value in before.items() if not torch.equal(value, state[name])}


def rows(combination: Combination) -> zoo.Rows:
    """Rows for a model; one of IGCM's kernel has a binary response."""
    return zoo.rows(combination.part("response") or "binary", COUNT).map(Tensor.float)


def elbo(bound: str) -> Any:
    """What `fit` is given for a column of the table."""
    if bound in OBJECTS:
        return OBJECTS[bound](NUM_PARTICLES)
    return None if bound == LEFT_OUT else bound


def evaluate(combination: Combination, model: Any) -> float:
    """The loss that is trained, in nats a row, of the same draws before and after training."""
    pair = model.training_pair(combination.objective)
    particles = NUM_PARTICLES if pair.sampled else 1
    loss = elbo(combination.bound)
    if isinstance(loss, str):
        loss = ELBOS[loss](num_particles=particles, max_plate_nesting=1)
    repeated = [
        column.repeat(ESTIMATES, *(1,) * (column.dim() - 1)) for column in rows(combination)[:3]
    ]
    with torch.random.fork_rng(), torch.no_grad(), pyro.validation_enabled(False):
        torch.manual_seed(0)
        if combination.objective == "paper":
            read = Scored(model, pair.plan, pair.bound(None, particles)).read(*repeated)
            return float(read.row_losses(1).mean())
        loss.num_particles = particles
        return float(loss.loss(pair.program, pair.guide, *repeated)) / len(repeated[0])
