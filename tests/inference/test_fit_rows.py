"""What `fit` takes and refuses, rows and options, and what its seed decides."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import zoo
from torch import Tensor
from training_runs import QUICK, same, weights

from pyro_gcm import GCM, fit
from pyro_gcm.inference.training_data import DataInMemory
from pyro_gcm.training.options import TrainingOptions


def refuses(model: GCM, message: str, **arguments: Any) -> None:
    """`fit` raises the message, and the model is what it was."""
    before = weights(model)
    with pytest.raises((ValueError, TypeError), match=message):
        fit(model, **{**QUICK, **arguments})
    assert same(before, weights(model))


def test_options_that_mean_nothing_are_refused_by_name(toy: zoo.Rows) -> None:
    """zoo.Rows that cannot be used are in `tests/arguments`."""
    for options, message in (
        (
            {"objective": "marginal"},
            r"objective must be one of \['conditional', 'joint'\], got 'mar",
        ),
        ({"elbo": "vae"}, r"elbo must be one of \['iwae', 'dreg', .* got 'vae'"),
        ({"validation": 1.0}, r"validation must be a share in \[0, 1\), got 1.0"),
        ({"validation": -0.1}, r"validation must be a share in \[0, 1\), got -0.1"),
        ({"validation": (1.0, 2.0)}, "validation must be"),
        ({"validation": 1e-3}, "validation=0.001 leaves no rows in one of the part"),
        ({"patience": 3}, "patience needs a validation part: pass validation=0.1"),
        ({"schedule": "linear"}, r"schedule must be one of .*'flat'\], got 'linear'"),
    ):
        refuses(GCM(3, 2), message, **toy._asdict(), **options)
    with pytest.raises(RuntimeError, match="abacus"):  # by torch
        fit(GCM(3, 2), *toy, device="abacus")


def test_quantile_levels_that_are_none_are_refused(toy: zoo.Rows) -> None:
    model = GCM(3, 1, response="quantile")
    for level in (0.0, 1.0, 1.7, -0.2):
        r = torch.full((200, 1), 0.5)
        r[3] = level
        message = "r must lie strictly between 0 and 1 for response='quantile'"
        refuses(model, message, x=toy.x, r=r, y=toy.y)
        for call in (model.predict, model.surface):
            with pytest.raises(ValueError, match="must lie strictly between 0 and 1"):
                call(toy.x, r)
    r = torch.full((200, 2), 0.5)
    message = "r must be one column of quantile levels.* got 2"
    refuses(GCM(3, 2, response="quantile"), message, x=toy.x, r=r, y=toy.y)


# What simply works


#: `tests/test_utils.py` has more of them.
FORMS: tuple[Callable[[Tensor], Any], ...] = (
    lambda t: pd.DataFrame(t.numpy(), index=range(900, 1100)),
    lambda t: t.reshape(200, -1),
    lambda t: t.clone().requires_grad_(),
    lambda t: t.bool() if t.dim() == 1 else t,
    Tensor.double,
    Tensor.tolist,
)


def test_the_same_rows_in_another_form_give_and_train_the_same(
    toy: zoo.Rows,
) -> None:
    fit(model := GCM(3, 2), *toy, **QUICK)
    wanted = model.predict(toy.x, toy.r), model.log_prob(*toy[:3])
    for form in FORMS:
        x, r, y = map(form, toy[:3])
        found = model.predict(x, r), model.log_prob(x, r, y)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
        fit(other := GCM(3, 2), x, r, y, **QUICK)
        # The units of numbers with more digits have more, too.
        tolerance = 1e-3 if form in FORMS[-2:] else 0.0
        torch.testing.assert_close(weights(other), weights(model), rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore:y has the same value in all rows")
def test_few_rows_and_constant_columns_train(toy: zoo.Rows) -> None:
    for response, rows in itertools.product(("binary", "continuous"), (1, 2, 5)):
        model = GCM(3, 2, response=response)
        before = weights(model)
        result = fit(model, *(t[:rows] for t in toy), epochs=2, progress=False)
        assert result.history.step.tolist() == [1, 2]
        assert model.predict(toy.x, toy.r).isfinite().all()
        assert not torch.equal(before["cost_net.net.0.weight"], model.cost_net.net[0].weight)
    for constant in ("x", "r", "y"):
        data = toy._replace(**{constant: torch.full_like(getattr(toy, constant), 1234.5)})
        model = GCM(3, 2, response="continuous")
        assert np.isfinite(fit(model, *data, **QUICK).history.loss).all()
        assert model.predict(data.x, data.r).isfinite().all()


@pytest.mark.parametrize("elbo", ["iwae", "renyi"])
def test_the_seed_decides_every_bit_of_the_weights(elbo: str, toy: zoo.Rows) -> None:
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


def test_seed_of_the_model_decides_its_first_weights_and_no_call_moves_the_generator() -> None:
    state = torch.get_rng_state()
    a, b, c = (weights(GCM(3, 2, seed=seed)) for seed in (1, 1, 2))
    assert same(a, b)
    for name in ("cost_net.net.0.weight", "z_prior.net.0.weight", "base_samples.samples"):
        assert not torch.equal(a[name], c[name])
    x, r = torch.zeros(2, 3), torch.zeros(2, 2)
    model = GCM(3, 2, prior="standard", alternatives=2, response="continuous", seed=7)
    for call in (model.predict, model.surface, GCM(3, 2).predict, GCM(3, 2).surface):
        call(x, r)
        call(x, r, num_samples=40)
    GCM(3, 2).cost(x)
    assert torch.equal(torch.get_rng_state(), state)


def test_one_row_may_be_held_out_or_learned_from() -> None:
    for share, sizes in ((0.1, (9, 1)), (0.9, (1, 9))):
        options = TrainingOptions(validation=share, device="cpu")
        parts = options.parts(10, torch.Generator().manual_seed(0))
        assert tuple(map(len, parts)) == sizes


@pytest.mark.filterwarnings("ignore:.* rows are copies of others")
def test_copies_of_a_row_are_held_out_together(toy: zoo.Rows) -> None:
    columns = [column[:50].repeat_interleave(4, 0) for column in (toy.x, toy.r, toy.y)]
    options = TrainingOptions(validation=0.2, device="cpu")
    data = DataInMemory(GCM(3, 2), columns, None, None, options)
    learned, out = ({*columns[0][part, 0].tolist()} for part in (data.learn, data.held_out))
    assert len(out) == 10
    assert not learned & out
