"""What `fit` takes and refuses, rows and options, and what its seed decides."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from training_cases import QUICK, Rows
from training_runs import same, weights

from pyro_gcm import GCM, fit

#: What has a rule of its own; rows that cannot be used are in `tests/arguments`.
BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "objective": (
        {"objective": "marginal"},
        r"objective must be one of \['conditional', 'joint'\], got 'marginal'",
    ),
    "elbo": ({"elbo": "vae"}, r"elbo must be one of \['iwae', 'dreg', .* got 'vae'"),
    "renyi": (
        {"elbo": "renyi", "num_particles": 1},
        "num_particles must be at least 2 for elbo='r",
    ),
    "validation": ({"validation": 1.0}, r"validation must be a share in \[0, 1\), got 1.0"),
    "validation low": ({"validation": -0.1}, r"validation must be a share in \[0, 1\), got -0.1"),
    "validation columns": ({"validation": (1.0, 2.0)}, "validation must be"),
    "validation rows": ({"validation": 1e-3}, "validation=0.001 leaves no rows in one of the part"),
    "patience alone": ({"patience": 3}, "patience needs a validation part: pass validation=0.1"),
    "schedule": ({"schedule": "linear"}, r"schedule must be one of .*'flat'\], got 'linear'"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_options_that_mean_nothing_are_refused_by_name(case: str, toy: Rows) -> None:
    options, message = BAD_OPTIONS[case]
    refuses(GCM(3, 2), message, **toy._asdict(), **options)


def test_a_device_that_torch_does_not_have_is_named_by_torch(toy: Rows) -> None:
    with pytest.raises(RuntimeError, match="abacus"):
        fit(GCM(3, 2), *toy, device="abacus")


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


#: `tests/test_validation.py` has more of them.
FORMS: dict[str, Callable[[Tensor], Any]] = {
    "frame": lambda t: pd.DataFrame(t.numpy(), index=range(900, 1100)),
    "column": lambda t: t.reshape(200, -1),
    "requires_grad": lambda t: t.clone().requires_grad_(),
    "bool y": lambda t: t.bool() if t.dim() == 1 else t,
}
MORE_DIGITS: dict[str, Callable[[Tensor], Any]] = {
    "float64": lambda t: t.double(),
    "lists": lambda t: t.tolist(),
}


@pytest.fixture(scope="module")
def wanted(toy: Rows) -> dict[str, Tensor]:
    """The weights after training on tensors."""
    fit(model := GCM(3, 2), *toy, **QUICK)
    return weights(model)


@pytest.mark.parametrize("form", [*FORMS, *MORE_DIGITS])
def test_the_same_rows_in_another_form_train_the_same_weights(
    form: str, toy: Rows, wanted: dict[str, Tensor]
) -> None:
    fit(got := GCM(3, 2), *map({**FORMS, **MORE_DIGITS}[form], toy), **QUICK)
    tolerance = 0.0 if form in FORMS else 1e-3  # the units have more digits, too
    torch.testing.assert_close(weights(got), wanted, rtol=0, atol=tolerance)


def test_integers_train(toy: Rows) -> None:
    model = GCM(3, 2)
    fit(model, (3 * toy.x).int(), toy.r.long(), toy.y.long(), **QUICK)
    assert model.predict((3 * toy.x).int(), toy.r.long()).isfinite().all()


@pytest.mark.filterwarnings("ignore:y has the same value in all rows")
@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("rows", [1, 2, 5], ids=lambda n: f"{n} rows")
def test_fewer_rows_than_a_batch_train(rows: int, response: str, toy: Rows) -> None:
    model = GCM(3, 2, response=response)
    before = weights(model)
    result = fit(model, *(t[:rows] for t in toy), epochs=2, progress=False)
    assert result.history.step.tolist() == [1, 2]
    assert model.predict(toy.x, toy.r).isfinite().all()
    assert not torch.equal(before["cost_net.net.0.weight"], model.cost_net.net[0].weight)


@pytest.mark.filterwarnings("ignore:y has the same value in all rows")
@pytest.mark.parametrize("constant", ["x", "r", "y"])
def test_constant_columns_train(constant: str, toy: Rows) -> None:
    rows = toy._asdict()
    rows[constant] = torch.full_like(rows[constant], 1234.5)
    model = GCM(3, 2, response="continuous")
    result = fit(model, **rows, **QUICK)
    assert np.isfinite(result.history.loss).all()
    assert model.predict(rows["x"], rows["r"]).isfinite().all()


@pytest.mark.parametrize("elbo", ["iwae", "renyi"])
def test_the_seed_decides_every_bit_of_the_weights(elbo: str, toy: Rows) -> None:
    def trained(seed: int, model_seed: int, noise: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(noise)  # must not matter
        np.random.seed(noise)
        torch.randn(noise)
        model = GCM(3, 2, seed=model_seed)
        fit(model, *toy, **QUICK, elbo=elbo, seed=seed)
        return weights(model)

    wanted = trained(3, 4, noise=1)
    assert same(wanted, trained(3, 4, noise=2))
    name = "cost_net.net.0.weight"
    assert not torch.equal(wanted[name], trained(5, 4, noise=1)[name])
    assert not torch.equal(wanted[name], trained(3, 6, noise=1)[name])


def test_seed_of_the_model_decides_its_first_weights_and_its_noise() -> None:
    a, b, c = (weights(GCM(3, 2, seed=seed)) for seed in (1, 1, 2))
    assert same(a, b)
    for name in ("cost_net.net.0.weight", "z_prior.net.0.weight", "base_samples.samples"):
        assert not torch.equal(a[name], c[name])


@pytest.mark.parametrize(
    "work",
    [
        lambda: GCM(3, 2),
        lambda: GCM(3, 2, prior="standard", alternatives=2, response="continuous", seed=7),
        lambda: GCM(3, 2).predict(torch.zeros(2, 3), torch.zeros(2, 2)),
        lambda: GCM(3, 2).predict(torch.zeros(2, 3), torch.zeros(2, 2), num_samples=40),
        lambda: GCM(3, 2).surface(torch.zeros(2, 3), torch.zeros(2, 2)),
        lambda: GCM(3, 2).cost(torch.zeros(2, 3)),
    ],
    ids=["build", "build standard", "predict", "predict more samples", "surface", "cost"],
)
def test_only_sampling_moves_the_global_generator(work: Any) -> None:
    before = torch.get_rng_state()
    work()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([2.0] * 8, [2.0] * 8, "y has the same time in all rows, 2: there is nothing to learn"),
        ([1.0, 2.0] * 4, [math.inf] * 8, "y has no event: all rows are censored"),
        ([2.0] * 8, [2.0] * 7 + [math.inf], None),
        ([1.0, 2.0] * 4, [1.0, 2.0] * 4, None),
    ],
    ids=["one time", "no event", "one is censored", "two times"],
)
def test_times_that_say_nothing_are_told(
    lower: list[float], upper: list[float], message: str | None
) -> None:
    y = torch.tensor([lower, upper, [0.0] * 8]).T
    generator = torch.Generator().manual_seed(0)
    x, r = torch.rand(8, 3, generator=generator), torch.rand(8, 2, generator=generator)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit(GCM(3, 2, response="survival"), x, r, y, epochs=1, num_particles=2, progress=False)
    found = [str(w.message) for w in told if str(w.message).startswith("y has")]
    assert len(found) == (message is not None)
    assert all(text.startswith(message or "") for text in found)
