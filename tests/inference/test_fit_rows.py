"""What `fit` takes and what it refuses: rows and options, by name and before any work."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from toy_rows import QUICK, Rows, same, weights

from pyro_gcm import GCM, fit

BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "y columns": ({"y": torch.zeros(200, 2)}, r"y must have shape \[rows\], got shape \(200, 2\)"),
    "r inf": ({"r": torch.full((200, 2), math.inf)}, "r must be finite, got 400 NaN or infinite"),
    "no rows": (
        {"x": torch.zeros(0, 3), "r": torch.zeros(0, 2), "y": torch.zeros(0)},
        "x has no rows, at least one is needed",
    ),
    "x meta": ({"x": torch.zeros(200, 3, device="meta")}, "x is on device meta"),
    "y meta": ({"y": torch.zeros(200, device="meta")}, "y is on device meta"),
    "y missing": ({"y": None}, "y must be a numeric array or tensor, got NoneType"),
}

BAD_OPTIONS = {
    "objective": (
        {"objective": "marginal"},
        r"objective must be one of \['conditional', 'joint', 'members'\], got 'marginal'",
    ),
    "elbo": ({"elbo": "vae"}, r"elbo must be one of \['iwae', 'dreg', .* got 'vae'"),
    "elbo type": ({"elbo": 3}, "elbo must be one of .* got 3"),
    "renyi": (
        {"elbo": "renyi", "num_particles": 1},
        "num_particles must be at least 2 for elbo='r",
    ),
    "num_particles": (
        {"num_particles": 0},
        "num_particles must be an integer of at least 1, got 0",
    ),
    "epochs": ({"epochs": 0}, "epochs must be an integer of at least 1, got 0"),
    "epochs type": ({"epochs": 1.5}, "epochs must be an integer of at least 1, got 1.5"),
    "batch_size": ({"batch_size": -4}, "batch_size must be an integer of at least 1, got -4"),
    "learning_rate": ({"learning_rate": 0.0}, "learning_rate must be a number above 0, got 0.0"),
    "clip_norm": ({"clip_norm": -1.0}, "clip_norm must be a number above 0, got -1.0"),
    "validation": ({"validation": 1.0}, r"validation must be a share in \[0, 1\), got 1.0"),
    "validation low": ({"validation": -0.1}, r"validation must be a share in \[0, 1\), got -0.1"),
    "validation rows": (
        {"validation": 1e-3},
        "validation=0.001 leaves no rows in one of the parts",
    ),
    "patience alone": ({"patience": 3}, "patience needs a validation part: pass validation=0.1"),
    "patience": ({"patience": 0, "validation": 0.1}, "patience must be an integer of at least 1"),
    "schedule": ({"schedule": "linear"}, r"schedule must be one of .*'flat'\], got 'linear'"),
    "optimizer": ({"optimizer": "adam"}, "optimizer must be a function .*, got 'adam'"),
    "device": ({"device": "abacus"}, "device='abacus' is not a device of torch"),
    "seed": ({"seed": "today"}, "seed must be an integer of at least 0, got 'today'"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_that_cannot_be_learned_from_are_refused_by_name(case: str, toy: Rows) -> None:
    rows, message = BAD_ROWS[case]
    refuses(GCM(3, 2), message, **{**toy._asdict(), **rows})


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_options_that_mean_nothing_are_refused_by_name(case: str, toy: Rows) -> None:
    options, message = BAD_OPTIONS[case]
    refuses(GCM(3, 2), message, **toy._asdict(), **options)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.7, -0.2])
def test_quantile_levels_outside_the_unit_interval_are_refused(level: float, toy: Rows) -> None:
    r = torch.full((200, 1), 0.5)
    r[3] = level
    message = "r must lie strictly between 0 and 1 for response='quantile'"
    refuses(GCM(3, 1, response="quantile"), message, x=toy.x, r=r, y=toy.y)


def test_two_columns_of_quantile_levels_are_refused(toy: Rows) -> None:
    model = GCM(3, 2, response="quantile")
    r = torch.full((200, 2), 0.5)
    refuses(model, "r must be one column of quantile levels.* got 2", x=toy.x, r=r, y=toy.y)


def refuses(model: GCM, message: str, **arguments: Any) -> None:
    """`fit` raises the message, and the model is what it was."""
    before = weights(model)
    with pytest.raises((ValueError, TypeError), match=message):
        fit(model, **{**QUICK, **arguments})
    assert same(before, weights(model))


# What simply works


def read_only(t: Tensor) -> Any:
    array = t.numpy().copy()
    array.flags.writeable = False
    return array


FORMS: dict[str, Callable[[Tensor], Any]] = {
    "numpy": lambda t: t.numpy(),
    "frame": lambda t: pd.DataFrame(t.numpy(), index=range(900, 1100)),
    "column": lambda t: t.reshape(200, -1),
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "reversed": lambda t: np.ascontiguousarray(t.numpy()[::-1])[::-1],
    "read only": read_only,
    "requires_grad": lambda t: t.clone().requires_grad_(),
    "bool y": lambda t: t.bool() if t.dim() == 1 else t,
    "uint8 y": lambda t: t.byte() if t.dim() == 1 else t,
}
MORE_DIGITS: dict[str, Callable[[Tensor], Any]] = {
    "float64": lambda t: t.double(),
    "lists": lambda t: t.tolist(),
}


@pytest.mark.parametrize("form", [*FORMS, *MORE_DIGITS])
def test_the_same_rows_in_another_form_train_the_same_weights(form: str, toy: Rows) -> None:
    wanted, got = GCM(3, 2), GCM(3, 2)
    fit(wanted, *toy, **QUICK)
    fit(got, *map({**FORMS, **MORE_DIGITS}[form], toy), **QUICK)
    tolerance = 0.0 if form in FORMS else 1e-3  # the units have more digits, too
    torch.testing.assert_close(weights(got), weights(wanted), rtol=0, atol=tolerance)


def test_a_frame_of_mixed_columns_is_numeric(toy: Rows) -> None:
    a = toy.x[:, 0].numpy().astype(float)
    mixed = pd.DataFrame({"a": a, "b": a > 0, "c": range(200)})
    plain = np.stack([a, a > 0, np.arange(200)], 1)
    models = GCM(3, 2), GCM(3, 2)
    for model, x in zip(models, (mixed, plain), strict=True):
        fit(model, x, toy.r, toy.y, **QUICK)
    assert same(*map(weights, models))


def test_integers_train(toy: Rows) -> None:
    model = GCM(3, 2)
    fit(model, (3 * toy.x).int(), toy.r.long(), toy.y.long(), **QUICK)
    assert model.predict((3 * toy.x).int(), toy.r.long()).isfinite().all()


@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("rows", [1, 2, 5], ids=lambda n: f"{n} rows")
def test_fewer_rows_than_a_batch_train(rows: int, response: str, toy: Rows) -> None:
    model = GCM(3, 2, response=response)
    before = weights(model)
    result = fit(model, *(t[:rows] for t in toy), epochs=2, progress=False)
    assert result.history.step.tolist() == [1, 2]
    assert model.predict(toy.x, toy.r).isfinite().all()
    assert not torch.equal(before["cost_net.net.0.weight"], model.cost_net.net[0].weight)


@pytest.mark.parametrize("constant", ["x", "r", "y"])
def test_constant_columns_train(constant: str, toy: Rows) -> None:
    rows = toy._asdict()
    rows[constant] = torch.full_like(rows[constant], 1234.5)
    model = GCM(3, 2, response="continuous")
    result = fit(model, **rows, **QUICK)
    assert np.isfinite(result.history.loss).all()
    assert model.predict(rows["x"], rows["r"]).isfinite().all()
