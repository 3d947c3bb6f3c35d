"""Predictions, draws and weights of every kind of model stay as they were, on every processor."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from golden_models import compare, computed, model_of, stored
from zoo import KINDS, Rows, rows_of

#: Relative size of the smallest change of a number in float32.
ULP = 2.0**-24


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_a_model_stay_as_they_were(kind: str) -> None:
    found, wanted = computed(model_of(kind), rows_of(kind)), stored(kind)
    assert found.keys() == wanted.keys()
    compare(found, wanted)


def one_weight(model: Any, data: Rows) -> Rows:
    """One weight of the costs is 1e-8 larger."""
    with torch.no_grad():
        next(model.cost_net.parameters()).view(-1)[0] += 1e-8
    return data


def wider_costs(model: Any, data: Rows) -> Rows:
    """The scale of the family of the costs is one ulp of float32 larger."""
    costs = model.cost_net.forward

    def wider(*context: Any) -> Any:
        d = costs(*context).base_dist
        return type(d)(d.loc, d.scale * (1.0 + ULP)).to_event(len(model.cost_shape))

    model.cost_net.forward = wider
    return data


def exchanged(name: str) -> Callable[[Any, Rows], Rows]:
    """The first two columns of x or r stand in each other's place."""

    def change(model: Any, data: Rows) -> Rows:
        column = getattr(data, name)
        return data._replace(**{name: column[:, [1, 0, *range(2, column.shape[1])]]})

    return change


MUTATIONS: dict[str, Callable[[Any, Rows], Rows]] = {
    "one weight": one_weight,
    "wider costs": wider_costs,
    "columns of x": exchanged("x"),
    "columns of r": exchanged("r"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize(
    "kind", ["plain", "splines and logistic costs", "sigmoid and laplace costs", "implicit"]
)
def test_the_numbers_notice_a_change(kind: str, mutation: str) -> None:
    model = copy.deepcopy(model_of(kind))
    found = computed(model, MUTATIONS[mutation](model, rows_of(kind)))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare(found, stored(kind))
