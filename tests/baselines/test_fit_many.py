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
def test_a_copy_that_diverges_stops_no_other(step: int) -> None:
    models, alone, data = copies(MLP), copies(MLP), columns()
    options = {**OPTIONS, "schedule": None}

    def poison(done: int) -> None:
        if done == step:
            with torch.no_grad():
                models[1].network.output.bias.fill_(torch.inf)

    first, error, last = fit_many(models, *data, seeds=SEEDS, callback=poison, **options)
    assert isinstance(error, Diverged)
    assert f"not finite in epoch {1 if step == 0 else 2}" in str(error)
    for at in (0, 2):
        fit(alone[at], *(column[at] for column in data), seed=SEEDS[at], **options)
        torch.testing.assert_close(weights(models[at]), weights(alone[at]), rtol=0.0, atol=1e-10)
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


#: Arguments, the error and what it says; "last" is the last of the models.
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    *(
        ({name: value}, TypeError, f"{name} is an option of fit alone")
        for name, value in {"seed": 0, "validation": 0.1, "patience": 3, "checkpoint": "a"}.items()
    ),
    ({"batches": 3}, TypeError, "batches"),
    ({"epochs": 0}, ValueError, "epochs must be an integer of at least 1, got 0"),
    ({"seeds": [1, 2]}, ValueError, "shorter"),
    ({"seeds": [1, 2, -1]}, ValueError, "seed must be an integer of at least 0, got -1"),
    ({"y": [torch.zeros(70)] * 2 + [torch.zeros(69)]}, ValueError, "y has 69"),
    ({"last": PWL(3, 2, hidden=6).double()}, ValueError, "alike .*MLP.*PWL"),
    ({"last": PWL(3, 2, hidden=6, weight=0.2).double()}, ValueError, r"alike .*'weight': 0\.2"),
    ({"last": MLP(3, 2, hidden=6)}, ValueError, "alike .*float32"),
    ({"last": MLP(3, 2, hidden=5).double()}, ValueError, "alike .*5, 3"),
    ({"last": MLP(3, 2, hidden=6).double().requires_grad_(False)}, ValueError, "alike .*False"),
    ({"last": nn.Linear(3, 2)}, TypeError, "be an instance of Baseline"),
]


def test_invalid_arguments_are_refused_before_training_starts() -> None:
    for change, error, message in REFUSED:
        models = [*copies(MLP)[:2], change.get("last", copies(MLP)[2])]
        before = [weights(model) for model in models]
        data = dict(zip("xry", columns(), strict=True))
        given = {name: value for name, value in change.items() if name != "last"}
        with pytest.raises(error, match=message):
            fit_many(**{"models": models, **data, "seeds": SEEDS, **OPTIONS, **given})
        for model, start in zip(models, before, strict=True):
            assert torch.equal(weights(model), start), change


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


def test_a_recorded_function_computes_what_it_did_on_other_numbers_and_draws_anew() -> None:
    first, second = torch.randn(2, 5, 4, 3).double().unbind()
    layer = torch.randn(3, 3).double()

    def loss(a: Tensor) -> Tensor:
        return torch.nn.functional.linear(a, layer).tanh().square().sum()

    function = vmap(grad(loss))
    got = recorded(function, first)(second)
    torch.testing.assert_close(got, function(second), rtol=0.0, atol=1e-14)
    program = recorded(lambda a: a + torch.rand_like(a), first)
    assert not torch.equal(program(second), program(second))
