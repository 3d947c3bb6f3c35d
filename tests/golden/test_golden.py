"""Predictions, draws and weights of every kind of model stay as they were, on every processor."""

from __future__ import annotations

import pytest
from golden_models import compare, computed, model_of, stored
from zoo import KINDS, rows_of


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_a_model_stay_as_they_were(kind: str) -> None:
    found, wanted = computed(model_of(kind), rows_of(kind)), stored(kind)
    assert found.keys() == wanted.keys()
    compare(found, wanted)
