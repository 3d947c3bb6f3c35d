"""Models of the zoo in float32, rows for them, and the forms in which a user may pass rows."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import torch
import zoo
from torch import Tensor
from zoo import Rows

from pyro_gcm import PosteriorDraws

#: Turns a CPU tensor into the form in which a user passes it.
Put = Callable[[Tensor], Any]


def forms(device: torch.device) -> dict[str, tuple[Put, torch.device]]:
    """The forms, and where results for them are expected: an array is on the CPU."""
    cpu = torch.device("cpu")
    return {
        "tensors on the CPU": (lambda values: values, cpu),
        "tensors on the device": (lambda values: values.to(device), device),
        "arrays": (lambda values: values.numpy(), cpu),
    }


def few_rows(kind: str, count: int = 3) -> Rows:
    """A few rows, on the CPU."""
    # Pyro's enumeration of one kind fails for rows of another type than the model's.
    dtype = torch.float32 if kind == "implicit, categorical" else torch.float64
    return zoo.rows_of(kind, dtype=dtype).map(lambda column: column[:count])


def fitted(kind: str, device: Any, put: Put = lambda values: values, **training: Any) -> Any:
    """A new model that was trained on a device, for one step."""
    model = zoo.build(kind, torch.float32)
    options = {**zoo.KINDS[kind].training, "epochs": 1, "num_particles": 2, **training}
    zoo.quickly(model, few_rows(kind, 32).map(put), device=device, **options)
    return model


@functools.cache
def on(kind: str, device: torch.device | str = "cpu") -> Any:
    """The model that was trained on the CPU, on a device."""
    if str(device) == "cpu":
        return fitted(kind, "cpu")
    return copy.deepcopy(on(kind)).to(device)


def leaves(result: Any) -> dict[str, Any]:
    """The tensors and tables of a result, by name."""
    if isinstance(result, Tensor | pd.DataFrame):
        return {"result": result}
    if isinstance(result, PosteriorDraws):
        return {**result.sites, **result.quality()}
    named = result if isinstance(result, Mapping) else result._asdict()
    return {name: value for name, value in named.items() if value is not None}


def assert_same(value: Any, wanted: Any, name: str, same_draws: bool = True) -> None:
    """A tensor or a table, wherever it is, has the numbers of another one on the CPU."""
    assert value.shape == wanted.shape, name
    if isinstance(wanted, pd.DataFrame):
        if same_draws:
            pd.testing.assert_frame_equal(value, wanted, rtol=1e-3, atol=1e-5)
        return
    assert value.dtype == wanted.dtype, name
    if same_draws:
        torch.testing.assert_close(
            value.cpu(), wanted, rtol=1e-3, atol=1e-5, equal_nan=True,
            msg=lambda text: f"{name}: {text}",
        )  # fmt: skip
