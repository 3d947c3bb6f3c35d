"""Predictions, draws and weights of every kind of model stay as they were, on every processor."""

from __future__ import annotations

import copy

import pytest
import torch
from golden_models import compare, computed, model_of, stored
from zoo import KINDS, rows_of


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_a_model_stay_as_they_were(kind: str) -> None:
    found, wanted = computed(model_of(kind), rows_of(kind)), stored(kind)
    assert found.keys() == wanted.keys()
    compare(found, wanted)


@pytest.mark.parametrize(
    "kind", ["plain", "splines and logistic costs", "sigmoid and laplace costs", "implicit"]
)
def test_the_numbers_notice_a_change(kind: str) -> None:
    model = copy.deepcopy(model_of(kind))
    with torch.no_grad():
        next(model.cost_net.parameters()).view(-1)[0] += 1e-8
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare(computed(model, rows_of(kind)), stored(kind))
