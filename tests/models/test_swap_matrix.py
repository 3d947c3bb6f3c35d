"""Every part in the place of every other: it trains, or an error says why not."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import swap_matrix
import swap_matrix_document
import torch
from swap_matrix import (
    GROUPS,
    REASONS,
    TRAINS,
    Combination,
    Group,
    Outcomes,
    combinations,
    run,
    run_group,
)
from swap_matrix_document import DOCUMENT, read, render

from pyro_gcm import fit


@functools.cache
def document() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


@functools.cache
def documented() -> Outcomes:
    return read(document())


@pytest.mark.parametrize("group", GROUPS, ids="-".join)
def test_every_combination_trains_or_is_refused_as_documented(group: Group) -> None:
    written = documented()
    other = {
        combination: f"{outcome}, documented {written.get(combination)}"
        for combination, outcome in run_group(group).items()
        if outcome != written.get(combination)
    }
    assert not other, f"run `python {swap_matrix_document.__file__}`"


def test_document_has_all_combinations_and_nothing_else() -> None:
    written = documented()
    assert set(written) == {c for group in GROUPS for c in combinations(group)}
    assert render(written) == document()  # the totals and the legend as well


def test_document_uses_every_reason() -> None:
    assert set(documented().values()) == {TRAINS, *REASONS}


def test_every_objective_trains_with_some_prior() -> None:
    trained = {c.group[:2] for c, outcome in documented().items() if outcome == TRAINS}
    assert trained == {group[:2] for group in GROUPS}


# No silent failure


def forgets(model: Any, *rows: Any, **options: Any) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fit(model, *rows, **options)
    model.load_state_dict(before)


def trains_too_much(model: Any, *rows: Any, **options: Any) -> None:
    fit(model, *rows, **options)
    with torch.no_grad():
        next(model.r_decoder.parameters()).add_(1.0)


def stands_still(model: Any, *rows: Any, **options: Any) -> None:
    fit(model, *rows, **{**options, "learning_rate": 1e-9})


def runs_into_nan(model: Any, *rows: Any, **options: Any) -> None:
    fit(model, *rows, **options)
    with torch.no_grad():
        next(model.cost_net.parameters()).fill_(torch.nan)


def warns(model: Any, *rows: Any, **options: Any) -> None:
    fit(model, *rows, **options)
    warnings.warn("something", stacklevel=2)


def refuses_oddly(model: Any, *rows: Any, **options: Any) -> None:
    raise ValueError("shapes do not match")


def refuses_too_late(model: Any, *rows: Any, **options: Any) -> None:
    model.x_standardizer.learn(rows[0])
    raise ValueError("objective='joint' needs prior='standard': with p(z|x)")


def breaks(model: Any, *rows: Any, **options: Any) -> None:
    raise RuntimeError("shapes do not match")


@pytest.mark.parametrize(
    ("broken", "error", "message"),
    [
        (forgets, AssertionError, "not all, or others, moved"),
        (trains_too_much, AssertionError, "not all, or others, moved.*r_decoder"),
        (stands_still, AssertionError, "loss"),
        (runs_into_nan, AssertionError, "NaN"),
        (warns, AssertionError, "warned.*something"),
        (refuses_oddly, AssertionError, "no reason.*shapes do not match"),
        (refuses_too_late, AssertionError, "was refused, but changed.*x_standardizer"),
        (breaks, RuntimeError, "shapes do not match"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_failure_cannot_pass_for_an_outcome(
    broken: Callable[..., None],
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    combination = Combination(Group("GCM", "conditional", "conditional"), "prior", "binary", "iwae")
    assert run(combination) == TRAINS
    monkeypatch.setattr(swap_matrix, "fit", broken)
    with pytest.raises(error, match=f"(?s){message}"):
        run(combination)
