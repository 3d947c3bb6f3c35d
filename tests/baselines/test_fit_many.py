"""Copies that are trained side by side are those that are trained alone."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from baseline_checks import ALL, Make, rows
from torch import Tensor, nn
from torch.func import grad, vmap

from pyro_gcm import baselines
from pyro_gcm.baselines import MLP, PWL, Baseline, Hint, fit, fit_many
from pyro_gcm.baselines.fit_many import recorded
from pyro_gcm.training import AdamW, Diverged

SEEDS = (3, 0, 8)
#: Four batches an epoch, the last one with fewer rows; every other step is clipped.
OPTIONS: Any = {
    "epochs": 2, "batch_size": 20, "learning_rate": 0.02, "clip_norm": 0.3, "progress": False,
    "optimizer": partial(AdamW, weight_decay=0.1),
}  # fmt: skip
CASES: dict[str, tuple[Make, torch.dtype, dict[str, Any]]] = {
    **{name: (make, torch.float64, {}) for name, make in ALL.items()},
    **{f"{name}, float32": (ALL[name], torch.float32, {}) for name in ("MLP", "SMM", "PWL")},
    "quantile": (partial(MLP, response="quantile"), torch.float64, {"schedule": None}),
    "continuous": (
        partial(MLP, response="continuous"),
        torch.float64,
        {"optimizer": torch.optim.SGD, "standardize": False, "clip_norm": None},
    ),
}


def copies(make: Make, dtype: torch.dtype = torch.float64, r_dim: int = 2) -> list[Baseline]:
    """Baselines that differ in their weights."""
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(make(3, r_dim, hidden=6).to(dtype))
    return models


def columns(dtype: torch.dtype = torch.float64, r_dim: int = 2) -> list[list[Tensor]]:
    """x, r and y of every copy, each in other units, and so that every response can take them."""
    parts = []
    for seed in range(3):
        x, r, y = rows(70, seed)
        parts.append([(1 + seed) * x + seed, r[:, :r_dim].sigmoid(), y])
    return [[each.to(dtype) for each in column] for column in zip(*parts, strict=True)]


def weights(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


# One of each kind of network, penalty and type: recording a step takes seconds.
KEPT = ("SMM", "Hint, comparable", "PWL", "MLP, float32")


@pytest.mark.long(keep=KEPT)
@pytest.mark.parametrize("name", CASES)
def test_every_copy_has_the_weights_and_the_history_that_it_has_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What `Hint` draws is not the same alone: here it draws nothing.
    monkeypatch.setattr(torch, "rand_like", lambda r: 0.5 + 0.0 * r)
    make, dtype, more = CASES[name]
    if "Hint" in name:
        monkeypatch.setattr(torch, "randperm", _rolled_or_shuffled(torch.randperm))
    r_dim = 1 if name == "quantile" else 2
    alone, together = copies(make, dtype, r_dim), copies(make, dtype, r_dim)
    data, options = columns(dtype, r_dim), {**OPTIONS, **more}
    wanted = [
        fit(model, *own, seed=seed, **options)
        for model, *own, seed in zip(alone, *data, SEEDS, strict=True)
    ]
    start = [weights(model) for model in together]
    found = fit_many(together, *data, seeds=SEEDS, **options)
    close = {"rtol": 0.0, "atol": 1e-10 if dtype == torch.float64 else 2e-4}
    for mine, theirs, before in zip(together, alone, start, strict=True):
        torch.testing.assert_close(weights(mine), weights(theirs), **close)
        assert (weights(mine) - before).abs().max() > 0.01
        assert mine.state_dict().keys() == theirs.state_dict().keys()
        for unit in ("x_units.loc", "r_units.scale", "y_units.loc"):
            assert torch.equal(mine.get_buffer(unit), theirs.get_buffer(unit))
    for result, one in zip(found, wanted, strict=True):
        assert not isinstance(result, Diverged)
        assert result.best_epoch == one.best_epoch
        names = ["epoch", "step", "loss", "learning_rate"]
        got, expected = (torch.tensor(r.history[names].to_numpy()) for r in (result, one))
        torch.testing.assert_close(got, expected, rtol=0.0, atol=close["atol"])


def _rolled_or_shuffled(randperm: Any) -> Any:
    """Rows of a batch, which a loss asks for with a device, are rolled in place of shuffled."""
    return lambda n, **given: torch.arange(n).roll(1) if "device" in given else randperm(n, **given)


def test_a_loss_draws_anew_for_every_copy_and_step_from_the_seeds() -> None:
    def losses(make: Make, *seeds: int) -> Tensor:
        models = [copies(make)[0] for _ in range(2)]
        data = [[column[0]] * 2 for column in columns()]
        options = {**OPTIONS, "epochs": 3, "batch_size": 70, "learning_rate": 1e-30}
        before = torch.get_rng_state()
        results = fit_many(models, *data, seeds=seeds, **options)
        assert torch.equal(torch.get_rng_state(), before)
        return torch.tensor([r.history.loss for r in results if not isinstance(r, Diverged)])

    drawn = losses(partial(Hint, weight=1e3, max_shift=3.0), 1, 2)
    gaps = (drawn.flatten() - drawn.flatten().unsqueeze(1)).abs() + torch.eye(6)
    assert gaps.min() > 1e-3
    assert torch.equal(losses(partial(Hint, weight=1e3, max_shift=3.0), 1, 2), drawn)
    constant = losses(MLP, 1, 2)
    torch.testing.assert_close(constant, constant[:1, :1].expand(2, 3), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("step", [0, 5])
def test_a_copy_that_diverges_keeps_its_last_good_weights_and_stops_no_other(step: int) -> None:
    models, alone, data = copies(MLP), copies(MLP), columns()
    options = {**OPTIONS, "schedule": None}

    def poison(done: int) -> None:
        if done == step:
            with torch.no_grad():
                models[1].output.bias.fill_(torch.inf)

    first, error, last = fit_many(models, *data, seeds=SEEDS, callback=poison, **options)
    assert isinstance(error, Diverged)
    batch, epoch = (1, 1) if step == 0 else (2, 2)
    assert f"the loss is nan in batch {batch} of 4 in epoch {epoch}. The model has" in str(error)
    for at in (0, 2):
        fit(alone[at], *(column[at] for column in data), seed=SEEDS[at], **options)
        torch.testing.assert_close(weights(models[at]), weights(alone[at]), rtol=0.0, atol=1e-10)
    if step == 0:
        assert weights(models[1]).isinf().any()  # those that it had before
    else:
        fit(alone[1], *(column[1] for column in data), seed=SEEDS[1], **{**options, "epochs": 1})
        torch.testing.assert_close(weights(models[1]), weights(alone[1]), rtol=0.0, atol=1e-10)
    assert not isinstance(first, Diverged)
    assert not isinstance(last, Diverged)
    assert len(first.history) == 2


def test_the_callback_meets_the_weights_of_the_step_and_an_interrupt_leaves_them() -> None:
    models, seen = copies(MLP), []

    def look(step: int) -> None:
        seen.append(weights(models[2]))
        assert torch.get_num_threads() == 1
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_many(models, *columns(), seeds=SEEDS, callback=look, **OPTIONS)
    assert len(seen) == 4
    assert all((a - b).abs().max() > 1e-3 for a, b in pairwise(seen))
    assert torch.equal(weights(models[2]), seen[-1])
    for parameter in models[2].parameters():  # no longer parts of the weights of all copies
        assert parameter.untyped_storage().nbytes() == parameter.nbytes


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        *(
            ({name: value}, TypeError, f"{name} is an option of fit alone")
            for name, value in (
                ("seed", 0), ("validation", 0.1), ("patience", 3), ("checkpoint", "run"),
            )
        ),
        ({"batches": 3}, TypeError, "batches"),
        ({"epochs": 0}, ValueError, "epochs must be an integer of at least 1, got 0"),
        ({"seeds": [1, 2]}, ValueError, "must be equally many, got .*'seeds': 2"),
        ({"x": None}, TypeError, "x must be a list, one for each model, got None"),
        ({"models": []}, ValueError, "must be equally many, got .*'models': 0"),
        ({"seeds": [1, 2, -1]}, ValueError, "seed must be an integer of at least 0, got -1"),
        ({"y": [torch.zeros(70)] * 2 + [torch.zeros(69)]}, ValueError, "y has 69"),
        (
            {"y": [*columns()[2][:2], torch.zeros(70)]}, ValueError,
            r"alike in y, got .*float64\) and, for number 2, \(70, torch.float32\)",
        ),
        ({"last": PWL(3, 2, hidden=6).double()}, ValueError, "class .*MLP.* for number 2, PWL"),
        ({"last": MLP(3, 2, hidden=6)}, ValueError, "for number 2, .*float32"),
        ({"last": MLP(3, 2, hidden=5).double()}, ValueError, r"for number 2, \(5, 3,"),
        ({"last": nn.Linear(3, 2)}, TypeError, r"be an instance of Baseline.*\(model number 2\)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_invalid_arguments_are_refused_before_training_starts(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    change, models = dict(change), copies(MLP)
    if "last" in change:
        models[2] = change.pop("last")
    before = [weights(model) for model in models]
    data = dict(zip("xry", columns(), strict=True))
    with pytest.raises(error, match=message):
        fit_many(**{"models": models, **data, "seeds": SEEDS, **OPTIONS, **change})
    for model, start in zip(models, before, strict=True):
        assert torch.equal(weights(model), start)


def test_models_with_other_options_or_frozen_parameters_or_there_twice_are_refused() -> None:
    models = [PWL(3, 2, weight=weight).double() for weight in (0.1, 0.1, 0.2)]
    with pytest.raises(ValueError, match=r"alike in class .* for number 2, .*'weight': 0\.2"):
        fit_many(models, *columns(), seeds=SEEDS, **OPTIONS)
    models[1].output.bias.requires_grad_(False)
    with pytest.raises(ValueError, match=r"requires_grad=False for \['output.bias'\]"):
        fit_many([*models[:2], models[0]], *columns(), seeds=SEEDS, **OPTIONS)
    with pytest.raises(ValueError, match="models must be different objects"):
        fit_many([models[0]] * 3, *columns(), seeds=SEEDS, **OPTIONS)


def test_a_loss_that_decides_by_values_is_refused() -> None:
    class Deciding(MLP):
        def standard_loss(self, *batch: Tensor) -> Tensor:
            loss = super().standard_loss(*batch)
            return loss if loss > 0.5 else 2.0 * loss

    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        fit_many(copies(Deciding), *columns(), seeds=SEEDS, **OPTIONS)


def test_every_public_baseline_is_among_those_that_are_compared() -> None:
    classes = {type(made(3, 2)) for made in ALL.values()}
    public = {getattr(baselines, name) for name in baselines.__all__}
    assert classes == {c for c in public if isinstance(c, type) and issubclass(c, Baseline)} - {
        Baseline
    }


# A recorded function computes what it computed when it was recorded, on other numbers


A, B = torch.randn(2, 5, 4, 3).double().unbind()


def test_values_are_those_of_the_function() -> None:
    layer = torch.randn(3, 3).double()

    def loss(a: Tensor) -> Tensor:
        return torch.nn.functional.linear(a, layer).tanh().square().sum()

    function = vmap(grad(loss))
    torch.testing.assert_close(recorded(function, A)(B), function(B), rtol=0.0, atol=1e-14)


def test_what_is_written_through_a_view_is_not_left_out() -> None:
    def function(a: Tensor) -> Tensor:
        b = a.clone()
        b.view(b.shape).transpose(0, 1).transpose(0, 1).expand(b.shape).mul_(2.0)
        b.view(-1).add_(1.0)
        return b

    program = recorded(function, A)
    torch.testing.assert_close(program(B), 2.0 * B + 1.0, rtol=0.0, atol=0.0)
    assert not torch.equal(program(B), program(A))


def test_random_numbers_are_drawn_anew() -> None:
    program = recorded(lambda a: a + torch.rand_like(a), A)
    torch.manual_seed(0)
    first, second = program(B), program(B)
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    assert torch.equal(program(B), first)
