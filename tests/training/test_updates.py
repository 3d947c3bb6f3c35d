"""Adam and AdamW are those of torch; averages."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.training import Adam, AdamW
from pyro_gcm.training.options import clip_gradients


def make(optimizer: Any, **options: Any) -> tuple[list[torch.nn.Parameter], Any]:
    """Parameters of two dtypes in two groups."""
    generator = torch.Generator().manual_seed(0)
    kinds = [((5, 3), torch.float32), ((7,), torch.float64), ((), torch.float32)]
    parameters = [
        torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype))
        for shape, dtype in kinds
    ]
    made = optimizer(parameters[:2], lr=0.02, weight_decay=0.1, **options)
    made.add_param_group({"params": parameters[2:], "lr": 0.5})
    return parameters, made


def set_gradients(parameters: list[torch.nn.Parameter], step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for p in parameters:
        p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)
    if step == 4:
        parameters[0].grad = None  # which is skipped in this step


def test_updates_and_state_are_those_of_torch() -> None:
    for ours_is, theirs_is in ((Adam, torch.optim.Adam), (AdamW, torch.optim.AdamW)):
        (mine, ours), (theirs, reference) = make(ours_is), make(theirs_is, fused=True)
        for step in range(12):
            for parameters, optimizer in ((mine, ours), (theirs, reference)):
                set_gradients(parameters, step)
                optimizer.param_groups[0]["lr"] = 0.02 / (1 + step)  # as a scheduler does
                optimizer.step()
            for one, other in zip(mine, theirs, strict=True):
                torch.testing.assert_close(one, other, msg=f"{ours_is} in step {step}")
            if step == 7:  # goes on from a state of torch, as after a checkpoint
                ours.load_state_dict(copy.deepcopy(reference.state_dict()))
        a, b = ours.state_dict(), reference.state_dict()
        assert a["param_groups"] == b["param_groups"]
        for key, state in b["state"].items():
            for part, value in state.items():
                torch.testing.assert_close(a["state"][key][part], value)


def test_gradients_are_clipped_as_by_torch() -> None:
    for bound in (0.5, 100.0, math.inf):
        (mine, _), (theirs, _) = make(AdamW), make(AdamW)
        for parameters in (mine, theirs):
            set_gradients(parameters, 4)
        norms = clip_gradients(mine, bound), torch.nn.utils.clip_grad_norm_(theirs, bound)
        torch.testing.assert_close(*norms, check_dtype=False)
        for one, other in zip(mine[1:], theirs[1:], strict=True):
            torch.testing.assert_close(one.grad, other.grad)
    with pytest.raises(TypeError, match="Adam has no amsgrad"):
        make(Adam, amsgrad=True)


# Averaged weights, and early stopping that keeps the mean prediction at the rate of y


def simulated(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(rows, 6, generator=g), torch.randn(rows, 3, generator=g)
    score = 1.2 * x[:, 0] + x[:, 1] * x[:, 2] + torch.logaddexp(r[:, 0], 1.5 * r[:, 1]) - 4.0
    return x, r, (torch.rand(rows, generator=g) < (score + 0.5 * r[:, 2]).sigmoid()).float()


def off_in_standard_errors(model: Any, x: Tensor, r: Tensor, y: Tensor) -> float:
    """The mean prediction less the rate of y, in standard errors of that rate."""
    rate = float(y.double().mean())
    error = (rate * (1.0 - rate) / len(y)) ** 0.5
    return (float(model.predict(x, r).double().mean()) - rate) / error


def test_mean_prediction_after_early_stopping_is_the_rate() -> None:
    """With the weights of single steps it is off by 5.6 standard errors."""
    x, r, y = simulated(3000)
    model = GCM(6, 3, alternatives=3, costs=3, seed=4)
    options: Any = {"num_particles": 4, "learning_rate": 0.03, "epochs": 60}
    options |= {"validation": 0.15, "patience": 5, "schedule": None}
    result = fit(model, x, r, y, seed=4, progress=False, **options)
    assert result.stopped_early
    train = torch.randperm(3000, generator=torch.Generator().manual_seed(4))[450:]
    assert abs(off_in_standard_errors(model, x[train], r[train], y[train])) < 2.0
