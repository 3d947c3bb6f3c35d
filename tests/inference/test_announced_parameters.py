"""A trainer that holds the parameters itself keeps Pyro's store out of it."""

from __future__ import annotations

import pyro
import pytest
from torch import nn

from pyro_gcm.inference.views import announce, unannounced


def names() -> list[str]:
    return sorted(pyro.get_param_store())


def test_announced_parameters_are_in_the_store() -> None:
    module = nn.Linear(2, 1)
    announce("mine", module)
    assert names() == ["mine$$$bias", "mine$$$weight"]
    assert pyro.param("mine$$$weight") is module.weight


def test_nothing_is_announced_inside_and_everything_after() -> None:
    with unannounced():
        announce("a", nn.Linear(2, 1))
        with unannounced():
            announce("b", nn.Linear(2, 1))
        announce("c", nn.Linear(2, 1))
    assert names() == []
    with pytest.raises(ZeroDivisionError), unannounced():
        raise ZeroDivisionError
    announce("d", nn.Linear(2, 1))
    assert names() == ["d$$$bias", "d$$$weight"]
