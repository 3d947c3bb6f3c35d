"""Every call takes rows in any form; what is wrong with them is in `tests/arguments`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, fit, load, save, to_arviz

FORMS: list[Callable[[Tensor], Any]] = [
    lambda t: t.double(),
    lambda t: t.numpy(),
    lambda t: t.tolist(),
    lambda t: pd.DataFrame(t.numpy()),
    lambda t: np.asfortranarray(t.numpy())[::-1][::-1],
    lambda t: torch.stack([t, t], 1)[:, 0],
    lambda t: t.clone().requires_grad_(),
]
NUMBERS: list[Callable[..., Tensor]] = [
    lambda m, x, r, y: m.predict(x, r),
    lambda m, x, r, y: m.surface(x, r),
    lambda m, x, r, y: m.cost(x).mean,
    lambda m, x, r, y: m.log_prob(x, r, y),
    lambda m, x, r, y: m.posterior(x, r, y, num_samples=9, progress=False)["c"],
    lambda m, x, r, y: torch.tensor(
        to_arviz(m, x, r, y, num_samples=9, progress=False)["posterior"]["c"].values
    ),
]


def test_the_same_rows_in_another_form_give_the_same_numbers() -> None:
    model, rows = GCM(3, 2), (torch.randn(12, 3), torch.randn(12, 2), torch.arange(12) % 2.0)
    for call in NUMBERS:
        wanted = call(model, *rows)
        for form in FORMS:
            found = call(model, *map(form, rows))
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
