"""Rows of any form and numeric type: the numbers in them count, in training and in predictions."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM, baselines, fit, load, save

#: Types of rows; a column stays in float64 where one cannot hold its numbers.
TYPES = (
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64),
    *(torch.int64, torch.uint8, torch.bool),
)


def few_digits(response: str) -> tuple[Tensor, Tensor, Tensor]:
    """Rows like those of training in float64, of numbers that half precision holds."""
    g = torch.Generator().manual_seed(0)
    steps = torch.randint(-4, 5, (24, 6), generator=g).double()
    x, r, y = 40.0 + steps[:, :3], steps[:, 3:5] * torch.tensor([2.0, 1 / 32]), steps[:, 5]
    r += torch.tensor([70.0, -0.5])
    if response == "quantile":
        r = 0.5 + steps[:, 3:4] / 16.0
    if response in ("binary", "ordinal"):
        y = (y > 0.0).double()
    elif response == "count":
        y = torch.stack([4.0 + y, 8.0 + y], 1)
    elif response == "survival":
        y = torch.stack([8.0 + y, 8.0 + y, 0.0 * y], 1)
    else:
        y = 256.0 + 16.0 * y
    return x, r, y


def answers(model: Any, x: Tensor, r: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Predictions of every kind that the model has."""
    posterior = model.posterior(x, r, y, num_samples=5, num_proposals=40, progress=False)
    found = {
        **zoo.predictions(model, zoo.Rows(x, r, y)),
        **dict(posterior),
        "predict_draws": model.predict_draws(x, r),
        "log_likelihood": model.log_likelihood(x, r, y, sites=posterior),
    }
    p_y = model.predictive(x, r)
    return found | ({"crps": p_y.crps(y)} if hasattr(p_y, "crps") else {})


@pytest.mark.filterwarnings("ignore:.*effective sample size")
@pytest.mark.long(keep=("plain", "quantile", "members, continuous", "implicit", "survival"))
@pytest.mark.parametrize("name", zoo.KINDS)
def test_numbers_of_any_type_have_the_same_predictions_without_gradients(name: str) -> None:
    rows, model = few_digits(zoo.KINDS[name].response), zoo.trained(name, torch.float32)
    wanted = answers(model, *rows)
    for dtype in TYPES:
        given = [values.to(dtype) for values in rows]
        same = [v if torch.equal(v.double(), w) else w for v, w in zip(given, rows, strict=True)]
        for values in same:
            values.requires_grad_(values.is_floating_point())
        for kind, found in answers(model, *same).items():
            assert not found.requires_grad
            assert torch.equal(found.double(), wanted[kind].double()), f"{kind} of {dtype}"


def test_half_precision_is_no_type_of_a_model() -> None:
    x, r, y = zoo.rows(count=12)[:3]
    message = "model must have parameters in float32 or float64, got"
    for dtype in (torch.float16, torch.bfloat16):
        models: tuple[tuple[Any, Any], ...] = (GCM(3, 2), fit), (baselines.SMM(3, 2), baselines.fit)
        for half, train in models:
            half.to(dtype)
            for call in (half.predict, half.surface):
                with pytest.raises(TypeError, match=message):
                    call(x, r)
            with pytest.raises(TypeError, match=message):
                train(half, x, r, y)


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
    with pytest.raises(TypeError, match=r"x must be .* DataFrame: .*'smith'"):
        GCM(2, 1).predict(x, [[1.0], [2.0]])
    with pytest.raises(TypeError, match=r"y must be .* list: .*'yes'"):
        fit(GCM(1, 1), [[0.0], [1.0]], [[0.0], [1.0]], ["yes", "no"])
