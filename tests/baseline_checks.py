"""All baselines, with data, weights and references for their tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyro_gcm import baselines
from pyro_gcm.baselines import Baseline

Array = np.ndarray[Any, Any]
Make = Callable[..., Baseline]

STRICT: dict[str, Make] = {
    "PosNN": baselines.PosNN,
    "PosNN, released": partial(baselines.PosNN, form="released"),
    "PosNN, canonical": partial(baselines.PosNN, form="canonical"),
    "MM": baselines.MM,
    "MM, canonical": partial(baselines.MM, form="canonical"),
    "SMM": baselines.SMM,
    "SMM, canonical": partial(baselines.SMM, form="canonical"),
    "CMNN": baselines.CMNN,
    "CMNN, released": partial(baselines.CMNN, form="released"),
    "CMNN, type 1": partial(baselines.CMNN, form="type1"),
    "CMNN, type 2": partial(baselines.CMNN, form="type2"),
    "SMNN": baselines.SMNN,
    "SMNN, released": partial(baselines.SMNN, form="released"),
    "Lipschitz": baselines.LipschitzMonotone,
    "Switch": baselines.SwitchMonotone,
}
OTHERS: dict[str, Make] = {
    "MLP": baselines.MLP,
    "Hint": baselines.Hint,
    "Hint, comparable": partial(baselines.Hint, pairs="comparable"),
    "PWL": baselines.PWL,
}
#: Networks of one hidden unit, for which splits of the units into groups are empty.
NARROW: dict[str, Make] = {
    "MLP, 1 unit": partial(baselines.MLP, hidden=1),
    **{
        f"CMNN {form}, 1 unit": partial(baselines.CMNN, form=form, hidden=1)
        for form in ("paper", "released", "type1", "type2")
    },
}
ALL = STRICT | OTHERS
#: Numbers of covariates and of revenues in these tests.
X_DIM, R_DIM = 3, 2
_STEPS = torch.tensor([1e-9, 1e-4, 0.1, 3.0], dtype=torch.float64)


def rows(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """x, r and a binary y that depends on both, in float64."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, X_DIM, generator=generator, dtype=torch.float64)
    r = torch.randn(n, R_DIM, generator=generator, dtype=torch.float64)
    noise = torch.rand(n, generator=generator, dtype=torch.float64)
    return x, r, (noise < (x[:, 0] * x[:, 1] + r.sum(1)).sigmoid()).double()


def made(make: Make, seed: int = 0, scale: float = 1.0, **options: Any) -> Baseline:
    """A baseline in float64 whose initial weights are multiplied by `scale`."""
    torch.manual_seed(seed)
    model = make(X_DIM, R_DIM, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def with_normal_weights(make: Make, scale: float, **options: Any) -> Baseline:
    """A baseline in float64 whose parameters are all normal with this standard deviation."""
    model = made(make, **options)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator).double())
    return model


@torch.no_grad()
def decreases(model: Baseline, pairs: int, seed: int = 0) -> int:
    """How many of `pairs` scores decrease, beyond rounding, when one revenue increases."""
    generator = torch.Generator().manual_seed(seed)
    x, r, _ = rows(pairs, seed)
    r = 3.0 * r  # includes the tails
    column = torch.randint(R_DIM, (pairs, 1), generator=generator)
    step = _STEPS[torch.randint(len(_STEPS), (pairs, 1), generator=generator)]
    low, high = model(x, r), model(x, r.scatter_add(1, column, step))
    return int((high < low - 1e-12 * (1.0 + low.abs())).sum())


def arrays(module: nn.Module) -> dict[str, Array]:
    """The weights of a module by name."""
    return {name: value.numpy() for name, value in module.state_dict().items()}


def positive(raw: Array) -> Array:
    """P(W)."""
    return np.asarray(np.log1p(np.exp(10.0 * raw)) / 10.0)


def two_stream(
    body: nn.Module, x: Array, r: Array, activation: Callable[[Array], Array] = np.tanh
) -> Array:
    """Outputs of the two-stream body."""
    w = arrays(body)
    a0 = x @ w["x_layers.0.weight"].T + w["x_layers.0.bias"]
    u0 = r @ positive(w["r_layers.0.weight"]).T + w["r_layers.0.bias"] + a0
    a1 = np.tanh(a0) @ w["x_layers.1.weight"].T + w["x_layers.1.bias"]
    u1 = activation(u0) @ positive(w["r_layers.1.weight"]).T + w["r_layers.1.bias"] + a1
    out = activation(u1) @ positive(w["r_layers.2.weight"]).T
    return np.asarray(out + np.tanh(a1) @ w["x_layers.2.weight"].T + w["x_layers.2.bias"])


def assert_score_is(model: Baseline, reference: Callable[[Array, Array], Array]) -> None:
    """The scores equal those of the reference; the model must not have learned any units."""
    x, r, _ = rows(40, seed=3)
    with torch.no_grad():
        got = model(x, r).numpy()
    assert np.ptp(got) > 0.1
    np.testing.assert_allclose(got, reference(x.numpy(), r.numpy()), rtol=1e-12, atol=1e-12)
