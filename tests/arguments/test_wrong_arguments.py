"""Arguments of a wrong type are refused by name, whatever is called, and not by another library."""

from __future__ import annotations

import copy
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch
from public_calls import CALLS, OF_ROWS, PROGRAMS, Call
from torch import Tensor
from wrong_values import ACCEPTED, DEFECTS, WRONG

from pyro_gcm import data

#: Of every function, a wrong value of each argument; all of them with `--long all`.
QUICK = ("text", "None", "complex", "quantised", "nested", "a list of itself", "beyond float64")
#: What the interface of scikit-learn prescribes, messages included.
OF_SCIKIT_LEARN = {"X", "random_state", "sample_weight", "y"}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """No figures stay."""
    yield
    plt.close("all")


def wrong(call: Call, argument: str, value: Any) -> str:
    """What is wrong with the answer to a wrong value; empty for an error that names it."""
    function, arguments = call
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**{**arguments, argument: value})
    except (TypeError, ValueError) as error:
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        if argument in OF_SCIKIT_LEARN and any(
            part in where for part in ("sklearn", "/estimators/", "numpy")
        ):
            return ""
        named = argument in str(error) or argument.removeprefix("model_") in str(error)
        if ("/pyro_gcm/" in where or "sklearn" in where) and named:
            return ""
        return f"{type(error).__name__} of {where}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


@pytest.mark.long(keep=24)
@pytest.mark.parametrize("name", CALLS)
def test_a_value_of_a_wrong_type_is_named(name: str) -> None:
    check(name, QUICK)


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("name", CALLS)
def test_any_wrong_value_is_named(name: str) -> None:
    check(name, WRONG)


def check(name: str, kinds: Any) -> None:
    """Give each argument of a function each of these values."""
    function, arguments = CALLS[name]()
    found = {}
    for argument, right in arguments.items():
        own = f"{name.removeprefix('IGCM.')}.{argument}"
        allowed = ACCEPTED.get(own, ACCEPTED.get(argument, ()))
        for kind in kinds:
            value = WRONG[kind]
            if value is right or allowed == "all" or kind in allowed:
                continue
            fault = wrong((function, arguments), argument, value)
            if fault:
                found[f"{argument} as {kind}"] = fault
    assert not found


@pytest.mark.parametrize("name", PROGRAMS | OF_ROWS)
def test_rows_that_cannot_be_used_are_refused_by_name_and_change_nothing(name: str) -> None:
    function, arguments = (PROGRAMS | OF_ROWS)[name]()
    model = arguments.get("model", getattr(function, "__self__", None))
    before = copy.deepcopy(model.state_dict())
    for argument, defects in DEFECTS.items():
        if isinstance(arguments.get(argument), Tensor):
            for change, message in defects:
                with pytest.raises(ValueError, match=message):
                    function(**{**arguments, argument: change(arguments[argument])})
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_the_first_errors_that_were_found_are_one_line() -> None:
    with pytest.raises(ValueError, match=r"name must be one of \['adult', .*\], got \['adult'\]"):
        data.load(["adult"])
    function, arguments = CALLS["required_revenue"]()
    with pytest.raises(ValueError, match=r"level must be a probability in \(0, 1\), got '0\.5'$"):
        function(**{**arguments, "level": "0.5"})
