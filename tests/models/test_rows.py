"""Every call takes rows in any form; costs and columns that it cannot use are refused by name."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit, load, save, to_arviz
from pyro_gcm.diagnostics import bound_by_particles, importance_diagnostics

# Costs that were seen; what is wrong with x, r and y is in `tests/arguments`

LATENTS = {"z": torch.zeros(5, 12, 4), "k": torch.zeros(5, 12, 2)}
TAKES_COSTS: dict[str, Callable[..., Any]] = {
    "fit": functools.partial(fit, progress=False),
    "log_prob": lambda m, *rows: m.log_prob(*rows),
    "log_likelihood": lambda m, *rows: m.log_likelihood(*rows, sites=LATENTS),
    "posterior": lambda m, *rows: m.posterior(*rows),
    "cost_posterior": lambda m, *rows: m.cost_posterior(*rows),
    "importance_diagnostics": importance_diagnostics,
    "bound_by_particles": bound_by_particles,
    "to_arviz": to_arviz,
}
UNSUITED: dict[str, tuple[type, dict[str, Any], str]] = {
    "continuous": (
        GCM,
        {"response": "continuous"},
        "c needs a response that is the order event itself.* got 'continuous'",
    ),
    "alternatives": (GCM, {"alternatives": 2}, "c needs one cost .* this GCM have none"),
    "map": (GCM, {"revenue_map": "sigmoid"}, "c needs one cost .* this GCM have none"),
    "IGCM": (IGCM, {}, "c needs one cost .* this IGCM have none"),
}
GUIDED = {"guide": "posterior"}
WRONG_COSTS: dict[str, tuple[Callable[[Tensor, Tensor], Any], dict[str, Any], str]] = {
    "columns": (lambda y, c: (y, c[:, :1]), {}, "c has 1 columns, the model was .* r_dim=2"),
    "rows": (lambda y, c: (y, c[:4]), {}, "row counts differ: c has 4"),
    "infinite": (lambda y, c: (y, c / 0.0), {}, "c must be finite, got .* first in row 1"),
    "strings": (lambda y, c: (y, [["a", "b"]]), {}, "c must be a numeric array"),
    "contradiction": (
        lambda y, c: (y, c + 1.0),
        {},
        "c contradicts y in 6 rows, the first in row 1",
    ),
    "y": (lambda y, c: (2.0 * y, c), {}, "y must be 0 or 1 for response='binary'"),
    "infinite y": (lambda y, c: (y / 0.0, c), {}, "y must be finite"),
    "no costs": (lambda y, c: (y * math.nan, None), {}, "y must be finite"),
    "guide": (lambda y, c: (y * math.nan, c), GUIDED, "the guide reads y: use guide='prior'"),
}


def with_costs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, r and y, and the costs of rows with y = 1."""
    x, r, y = torch.randn(12, 3), torch.randn(12, 2), torch.arange(12) % 2.0
    return x, r, y, torch.where(y[:, None] == 1.0, r - 0.1, math.nan)


@pytest.mark.parametrize("case", UNSUITED)
def test_model_whose_costs_have_no_units_is_refused(case: str) -> None:
    kind, options, message = UNSUITED[case]
    with pytest.raises(ValueError, match=message):
        fit(kind(3, 2, **options), *with_costs())


@pytest.mark.parametrize(
    ("call", "case"),
    [*(("fit", case) for case in WRONG_COSTS), *((call, "columns") for call in TAKES_COSTS)],
)
def test_wrong_costs_are_refused(call: str, case: str) -> None:
    change, options, message = WRONG_COSTS[case]
    x, r, y, c = with_costs()
    with pytest.raises((ValueError, TypeError), match=message):
        TAKES_COSTS[call](GCM(3, 2, **options), x, r, *change(y, c))


# Other forms

FORMS: dict[str, Callable[[Tensor], Any]] = {
    "float64": lambda t: t.double(),
    "numpy": lambda t: t.numpy(),
    "lists": lambda t: t.tolist(),
    "frame": lambda t: pd.DataFrame(t.numpy()),
    "strided numpy": lambda t: np.asfortranarray(t.numpy())[::-1][::-1],
    "strided": lambda t: torch.stack([t, t], 1)[:, 0],
    "requires_grad": lambda t: t.clone().requires_grad_(),
}
NUMBERS: dict[str, Callable[..., Tensor]] = {
    "predict": lambda m, x, r, y, c: m.predict(x, r),
    "surface": lambda m, x, r, y, c: m.surface(x, r),
    "cost": lambda m, x, r, y, c: m.cost(x).mean,
    "log_prob": lambda m, x, r, y, c: m.log_prob(x, r, y, c),
    "posterior": lambda m, x, r, y, c: m.posterior(x, r, y, num_samples=9, progress=False)["c"],
    "to_arviz": lambda m, x, r, y, c: torch.tensor(
        to_arviz(m, x, r, y, c, num_samples=9, progress=False)["posterior"]["c"].values
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call", NUMBERS)
def test_the_same_rows_in_another_form_give_the_same_numbers(call: str, form: str) -> None:
    model, rows = GCM(3, 2), with_costs()
    wanted = NUMBERS[call](model, *rows)
    found = NUMBERS[call](model, *(FORMS[form](t) for t in rows))
    assert not found.requires_grad
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


def test_data_frames_must_have_the_columns_of_fit(tmp_path) -> None:
    x = pd.DataFrame({"age": [20.0, 30.0] * 10, "rooms": [1.0, 2.0, 3.0, 4.0] * 5})
    r = pd.DataFrame({"bid": torch.arange(20.0), "time": torch.arange(20.0).flip(0)})
    model = GCM(2, 2)
    fit(model, x, r, [0, 1] * 10, epochs=1, progress=False)
    save(model, tmp_path / "model")
    for one in (model, load(tmp_path / "model")):
        one.predict(x, r)
        one.predict(x.to_numpy(), r)
        one.required_revenue(x, 0.5, r=r.rename(columns={"time": "unused"})[["unused"]])
        with pytest.raises(ValueError, match=r"x must have the columns of fit, \['age', 'rooms'\]"):
            one.predict(x[["rooms", "age"]], r)
        with pytest.raises(ValueError, match=r"r must have the columns .* got \['time', 'bid'\]"):
            one.log_prob(x, r[["time", "bid"]], [0, 1] * 10)
        with pytest.raises(ValueError, match="r must have the columns of fit"):
            one.surface(x, revenues=r[["time", "bid"]])


def test_a_column_that_is_no_number_is_named() -> None:
    x = pd.DataFrame({"age": [20.0, 30.0], "job": ["smith", "clerk"]})
    with pytest.raises(TypeError, match=r"x must be .* column 'job' has 'smith', which is no numb"):
        GCM(2, 1).predict(x, [[1.0], [2.0]])
    with pytest.raises(TypeError, match=r"y must be .* entry \[0\] has 'yes', which is no number"):
        fit(GCM(1, 1), [[0.0], [1.0]], [[0.0], [1.0]], ["yes", "no"])
