"""Promises that every baseline keeps, whatever its formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyro_gcm.baselines import Baseline, fit

Array = np.ndarray[Any, Any]
Make = Callable[..., Baseline]

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
    """A baseline in float64, its weights `scale` times what the seed gives."""
    torch.manual_seed(seed)
    model = make(X_DIM, R_DIM, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def trained(make: Make, **options: Any) -> Baseline:
    """A baseline in float64 after a few steps of training."""
    model = made(make, **options)
    fit(model, *rows(640), epochs=2, batch_size=64, learning_rate=0.05, progress=False)
    return model


@torch.no_grad()
def decreases(model: Baseline, pairs: int, seed: int = 0) -> int:
    """How many of `pairs` scores fall, beyond rounding, when one revenue rises."""
    generator = torch.Generator().manual_seed(seed)
    x, r, _ = rows(pairs, seed)
    r = 3.0 * r  # far into the tails as well
    column = torch.randint(R_DIM, (pairs, 1), generator=generator)
    step = _STEPS[torch.randint(len(_STEPS), (pairs, 1), generator=generator)]
    low, high = model(x, r), model(x, r.scatter_add(1, column, step))
    return int((high < low - 1e-12 * (1.0 + low.abs())).sum())


def assert_monotone(make: Make, pairs: int) -> None:
    """No decrease in `pairs` pairs, for random weights of several scales and for trained ones."""
    models = [made(make, seed, scale) for seed, scale in enumerate((0.3, 1.0, 3.0))]
    models.append(trained(make))
    for seed, model in enumerate(models):
        assert decreases(model, pairs // len(models), seed) == 0
        assert model.strict


def assert_surface_is_predict(make: Make) -> None:
    """Cached, not cached and row by row are the same predictions, in both precisions."""
    x, revenues = rows(5)[0], rows(7, seed=1)[1]
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        model = trained(make).to(dtype)
        cached = model.surface(x, revenues)
        assert cached.shape == (5, 7)
        assert cached.dtype == dtype
        pairs = [[model.predict(x[i : i + 1], r[None])[0] for r in revenues] for i in range(5)]
        by_row = torch.tensor(pairs, dtype=dtype)
        for other in (model.surface(x, revenues, cached=False), by_row):
            torch.testing.assert_close(cached, other, rtol=0.0, atol=tolerance)


def assert_gradients_everywhere(make: Make) -> None:
    """The loss of some rows has a gradient in every parameter, as it is made and once trained."""
    for model in (made(make), trained(make)):
        model.zero_grad(set_to_none=True)
        model.loss(*rows(500)).backward()
        without = [
            name
            for name, parameter in model.named_parameters()
            if parameter.grad is None or not parameter.grad.any() or parameter.grad.isnan().any()
        ]
        assert not without


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
    """Scores of some rows are those of the reference, with the model's own units left out."""
    x, r, _ = rows(40, seed=3)
    with torch.no_grad():
        got = model(x, r).numpy()
    assert np.ptp(got) > 0.1
    np.testing.assert_allclose(got, reference(x.numpy(), r.numpy()), rtol=1e-12, atol=1e-12)


def with_random_weights(model: Baseline, scale: float, generator: torch.Generator) -> Baseline:
    """The model in float64, all its parameters normal with this spread."""
    model = model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            draw = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(scale * draw.double())
    return model


def columns(generator: torch.Generator, n: int = 50) -> tuple[Tensor, Tensor]:
    """Standard normal x and r."""
    draws = torch.randn(n, X_DIM + R_DIM, generator=generator, dtype=torch.float64)
    return draws[:, :X_DIM], draws[:, X_DIM:]
