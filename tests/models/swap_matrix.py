"""Every part in the place of every other: what trains, what is refused, and why."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyro
import torch
from pyro.infer import RenyiELBO
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.inference import ImportanceWeightedELBO
from pyro_gcm.inference.fit import ELBOS
from pyro_gcm.models.order_event_model import OrderEventModel
from pyro_gcm.models.parts import GUIDES, KERNEL_GUIDES, PRIORS

TRAINS = "✓"

COUNT, X_DIM = 48, 3
SIZES: dict[str, Any] = {"z_dim": 2, "hidden": (8,), "num_samples": 8}
STEPS, LEARNING_RATE, NUM_PARTICLES = 3, 0.005, 4
#: Estimates of the loss of every row that are averaged, before and after training.
ESTIMATES = 16
#: How far the loss has to fall, in nats a row.
MARGIN = 0.01


class Matrix(NamedTuple):
    """One model and the axes of its combinations; the bounds are an axis too."""

    title: str
    kind: type[OrderEventModel]
    first: tuple[str, tuple[str, ...]]  # an argument and what it can be
    second: tuple[str, tuple[str, ...]]
    variants: dict[str, dict[str, Any]]  # arguments by name; in a cell only where they matter
    fixed: dict[str, Any]


RESPONSES: dict[str, dict[str, Any]] = {
    response: {"response": response} for response in ("binary", "continuous", "quantile")
}
KERNEL = "IGCM, its kernel"
MATRICES = {
    matrix.title: matrix
    for matrix in (
        Matrix("GCM", GCM, ("prior", PRIORS), ("guide", GUIDES), RESPONSES, {}),
        Matrix(
            "IGCM",
            IGCM,
            ("prior", PRIORS),
            ("guide", GUIDES),
            RESPONSES,
            {"kernel_guide": "amortised"},
        ),
        Matrix(
            KERNEL,
            IGCM,
            ("kernel_prior", ("standard", "conditional")),
            ("kernel_guide", KERNEL_GUIDES),
            {"k_dim=2": {"k_dim": 2}, "k_dim=1": {"k_dim": 1}},
            {},
        ),
    )
}

#: What `fit` is given as `elbo`, for a number of particles.
OBJECTS: dict[str, Callable[[int], Any]] = {
    "ImportanceWeightedELBO": lambda n: ImportanceWeightedELBO(n, alpha=0.5, max_plate_nesting=1),
    "RenyiELBO": lambda n: RenyiELBO(
        alpha=0.5, num_particles=n, max_plate_nesting=1, vectorize_particles=True
    ),
}
BOUNDS = (*ELBOS, *OBJECTS)
LEFT_OUT = "left out"


def bounds(objective: str) -> tuple[str, ...]:
    """The axis of the bounds: "paper" is a loss of its own."""
    return (LEFT_OUT, *BOUNDS) if objective == "paper" else BOUNDS


class Reason(NamedTuple):
    """Why a combination is refused: by the constructor or by `fit`, with which message."""

    by: str
    sentence: str
    message: str


REASONS = {
    "A": Reason(
        "constructor",
        "with prior N(0, I) z drawn from the prior would never read x",
        r"guide='prior' with prior='standard' would never read x: use 'amortised'",
    ),
    "B": Reason(
        "constructor",
        "with prior N(0, I) predictions draw z from the guide, which must not read r and y",
        r"guide='posterior\w*' reads r and y, and with prior='standard' a prediction draws z",
    ),
    "C": Reason(
        "constructor",
        "a categorical z is summed out exactly, without a guide",
        r"guide='\w+' with a categorical prior: z is summed out exactly, without a guide",
    ),
    "D": Reason(
        "constructor",
        "quantile levels are chosen, and IGCM generates its revenues",
        r"response='quantile' has chosen levels in place of revenues",
    ),
    "E": Reason(
        "fit",
        "log p(x, r, y) needs p(z) p(x given z); with p(z given x) it is no density of x",
        r"objective='joint' needs prior='standard': with p\(z\|x\)",
    ),
    "F": Reason(
        "fit",
        "log p(x, r, y) needs observed revenues, and quantile levels are chosen",
        r"objective='joint' needs revenues that are observed; the levels of response='quantile'",
    ),
    "G": Reason(
        "fit",
        "exact enumeration needs a z with a finite support",
        r"elbo='enum' sums over a finite z, and this prior has none: use prior='categorical'",
    ),
    "H": Reason(
        "fit",
        "the bound cannot differentiate through draws of a categorical z; enumeration sums it out",
        r"elbo=.* cannot differentiate through draws of a categorical z: use 'enum'",
    ),
    "I": Reason(
        "fit",
        "the doubly reparametrised gradient is for a guide of its own; where z or k is drawn from "
        "the program's own distribution it only adds noise",
        r"elbo='dreg' needs a guide of its own for (z|k|z, k): where the guide is the program's",
    ),
    "J": Reason(
        "fit",
        "the loss of the paper is no ELBO, and takes none",
        r"elbo must be left out: objective='paper' is a loss of its own",
    ),
    "K": Reason(
        "fit",
        "the loss of the paper averages over draws of z, and a categorical z is summed out",
        r"objective='paper' averages over draws of z: not with a categorical z",
    ),
    "L": Reason(
        "fit",
        "the loss of the paper needs a q(k given x, r) of its own, which predictions use as well",
        r"objective='paper' needs a q\(k\|x, r\) of its own, which predictions use as well",
    ),
    "M": Reason(
        "fit",
        "log p(x, r, y) needs p(k) p(x given z, k); with p(k given x) it is no density of x",
        r"objective='joint' needs kernel_prior='standard': with p\(k\|x\)",
    ),
}


class Group(NamedTuple):
    """The combinations of one model, objective and first part: what one test runs."""

    matrix: str
    objective: str
    first: str


class Combination(NamedTuple):
    """One choice on every axis."""

    group: Group
    second: str
    variant: str
    bound: str


Outcomes = dict[Combination, str]  # TRAINS, or the letter of a reason

GROUPS = [
    Group(matrix.title, objective, first)
    for matrix in MATRICES.values()
    for objective in matrix.kind.objectives
    for first in matrix.first[1]
]


def combinations(group: Group) -> Iterator[Combination]:
    """All combinations of a group."""
    matrix = MATRICES[group.matrix]
    axes = matrix.second[1], matrix.variants, bounds(group.objective)
    for second, variant, bound in itertools.product(*axes):
        yield Combination(group, second, variant, bound)


# Running


def run_group(group: Group) -> Outcomes:
    """What happened to every combination of a group.

    :raises AssertionError: for one that neither trains nor is refused for a reason of the list.
    """
    outcomes: Outcomes = {}
    refused: dict[tuple[str, str], str] = {}  # no bound is needed to see that
    for combination in combinations(group):
        part = combination.second, combination.variant
        outcome = refused.get(part) or run(combination)
        if outcome != TRAINS and REASONS[outcome].by == "constructor":
            refused[part] = outcome
        outcomes[combination] = outcome
    return outcomes


def run(combination: Combination) -> str:
    """Build and train one combination: TRAINS, or the letter of the reason why not."""
    with warnings.catch_warnings(record=True) as caught, torch.random.fork_rng(devices=[]):
        warnings.simplefilter("always")
        try:
            model = build(combination)
        except ValueError as error:
            outcome = letter("constructor", error)
        else:
            outcome = train(combination, model)
    told = [str(warning.message) for warning in caught]
    literal = outcome == TRAINS and not model.reads_x
    literal = literal and combination.group.objective in ("conditional", "response_revenue")
    assert len(told) == literal, f"{combination} warned: {told}"
    assert not literal or "is the paper's literal loss" in told[0], f"{combination}: {told}"
    return outcome


def build(combination: Combination) -> OrderEventModel:
    """The model of a combination, with first weights that are always the same."""
    (title, objective, first), second, variant, _ = combination
    matrix = MATRICES[title]
    parts = {matrix.first[0]: first, matrix.second[0]: second}
    if title == KERNEL and objective == "joint":
        parts["prior"] = "standard"
    variable = matrix.variants[variant]
    r_dim = 1 if variant == "quantile" else 2
    return matrix.kind(X_DIM, r_dim, **SIZES, **matrix.fixed, **parts, **variable)


def train(combination: Combination, model: OrderEventModel) -> str:
    """A few steps of `fit`, with all that must have come of them."""
    objective = combination.group.objective
    rows = toy(combination.variant)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    losses: list[float] = []

    def watch(step: int) -> None:
        if step in (0, STEPS):
            losses.append(evaluate(combination, model, rows))

    try:
        fit(
            model,
            *rows,
            objective=objective,
            elbo=elbo(combination.bound, NUM_PARTICLES),
            num_particles=NUM_PARTICLES,
            epochs=STEPS,
            batch_size=COUNT,
            learning_rate=LEARNING_RATE,
            schedule=None,
            progress=False,
            callback=watch,
        )
    except ValueError as error:
        refusal = error
    else:
        refusal = None
    changed = moved(model, before)
    if refusal:
        assert not changed, f"{combination} was refused, but changed {changed}: {refusal}"
        return letter("fit", refusal)

    assert losses[0] - losses[-1] > MARGIN, f"{combination}: loss {losses}"  # NaN fails as well
    parameters = dict(model.named_parameters())
    wanted = set(model.trained_parameters(objective))
    strange = (changed & set(parameters)) ^ wanted
    assert not strange, f"{combination}: not all, or others, moved: {strange}"
    assert all(p.isfinite().all() for p in parameters.values()), f"{combination}: NaN"
    prediction = model.predict(*rows[:2])
    assert prediction.shape == (COUNT,), f"{combination} predicts shape {prediction.shape}"
    assert prediction.isfinite().all(), f"{combination} predicts {prediction}"
    return TRAINS


def elbo(bound: str, num_particles: int) -> Any:
    """What `fit` is given for a column of the table."""
    if bound in OBJECTS:
        return OBJECTS[bound](num_particles)
    return None if bound == LEFT_OUT else bound


def evaluate(combination: Combination, model: OrderEventModel, rows: tuple[Tensor, ...]) -> float:
    """The loss that is trained, in nats a row, of the same draws before and after training."""
    pair = model.training_pair(combination.group.objective)
    particles = NUM_PARTICLES if pair.sampled else 1
    loss = pair.loss or elbo(combination.bound, particles)
    if isinstance(loss, str):
        loss = ELBOS[loss](num_particles=particles, max_plate_nesting=1, vectorize_particles=True)
    loss.num_particles = particles
    repeated = [column.repeat(ESTIMATES, *(1,) * (column.dim() - 1)) for column in rows]
    devices: list[torch.device] = []
    with torch.random.fork_rng(devices), torch.no_grad(), pyro.validation_enabled(False):
        torch.manual_seed(0)
        return float(loss.loss(pair.program, pair.guide, *repeated)) / len(repeated[0])


def moved(model: OrderEventModel, before: dict[str, Tensor]) -> set[str]:
    """Names of what is no longer as it was, buffers included."""
    return {
        name for name, value in model.state_dict().items() if not torch.equal(value, before[name])
    }


def letter(by: str, error: ValueError) -> str:
    """The reason that an error states."""
    message = str(error)
    found = [name for name, reason in REASONS.items() if re.match(reason.message, message)]
    assert len(found) == 1, f"no reason, or several {found}, for: {message}"
    assert REASONS[found[0]].by == by, f"not from the {REASONS[found[0]].by}: {message}"
    return found[0]


def toy(variant: str) -> tuple[Tensor, Tensor, Tensor]:
    """x, r and y of a few rows, far from unit scale; y depends on both."""
    g = torch.Generator().manual_seed(5)
    x = torch.randn(COUNT, X_DIM, generator=g)
    r = torch.rand(COUNT, 2, generator=g)
    margin = 2.0 * x[:, 0] + 4.0 * (r.sum(1) - 1.0) + 0.5 * torch.randn(COUNT, generator=g)
    if variant == "quantile":
        return x, r[:, :1].clamp(0.01, 0.99), 300.0 + 50.0 * margin
    y = 300.0 + 50.0 * margin if variant == "continuous" else (margin > 0.0).float()
    return x, 50.0 + 20.0 * r, y
