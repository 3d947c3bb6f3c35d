"""The promises of all baselines: monotone or not, consistent surfaces, gradients and checks."""

from __future__ import annotations

import copy
import functools
import itertools
from typing import Any

import pytest
import torch
from baseline_checks import ALL, NARROW, OTHERS, R_DIM, STRICT, X_DIM, Make, decreases, made, rows

from pyro_gcm import audit_monotonicity, baselines
from pyro_gcm.baselines import Baseline, fit


@functools.cache
def trained(name: str) -> Baseline:
    """A baseline in float64 after a few steps of training, for all tests."""
    model = made((ALL | NARROW)[name])
    fit(model, *rows(640), epochs=2, batch_size=64, learning_rate=0.05, progress=False)
    return model


@pytest.mark.parametrize("pairs", [8_000, pytest.param(125_000, marks=pytest.mark.long(keep=0))])
@pytest.mark.parametrize("name", STRICT)
def test_no_score_decreases_for_random_and_trained_weights(name: str, pairs: int) -> None:
    models = [made(STRICT[name], seed, scale) for seed, scale in enumerate((0.3, 1.0, 3.0))]
    models.append(trained(name))
    for seed, model in enumerate(models):
        assert model.strict
        assert decreases(model, pairs, seed) == 0


def counter_trained(make: Make) -> tuple[Baseline, torch.Tensor, torch.Tensor]:
    """A model in float64, trained on outcomes that decrease in the first revenue."""
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(1_000, 3, generator=g), torch.randn(1_000, 3, generator=g)
    y = (x[:, 0] - r[:, 0] + r[:, 1] * x[:, 1] > 0).float()
    torch.manual_seed(0)
    model = make(3, 3, hidden=16)
    fit(model, x, r, y, epochs=4, batch_size=100, progress=False)
    return model.double(), x, r


def fast_trained(make: Make) -> tuple[Baseline, torch.Tensor, torch.Tensor]:
    """A model of float32 means after fast training on outcomes that increase in every revenue."""
    g = torch.Generator().manual_seed(1)
    x, r = torch.randn(1_000, 3, generator=g), torch.randn(1_000, 3, generator=g)
    y = x[:, 0] + r.sum(1) + 0.1 * torch.randn(1_000, generator=g)
    torch.manual_seed(0)
    model = make(3, 3, response="continuous")
    fit(model, x, r, y, epochs=6, batch_size=100, learning_rate=0.1, progress=False)
    return model, x, r


TRAININGS = (counter_trained, fast_trained)
#: Each baseline after one of the trainings; with `--long all` after both, on many more pairs.
AUDITS = [
    *((*case, 4_000) for case in zip(STRICT, itertools.cycle(TRAININGS))),
    *(
        pytest.param(name, training, 1_000_000, marks=pytest.mark.long(keep=0))
        for name, training in itertools.product(STRICT, TRAININGS)
    ),
]


@pytest.mark.parametrize(("name", "prepared", "pairs"), AUDITS)
def test_audit_finds_no_violation(name: str, prepared: Any, pairs: int) -> None:
    model, x, r = prepared(STRICT[name])
    # Baselines are plain torch: they rise up to the rounding of a processor, tens of units at 2.
    audit = audit_monotonicity(
        model, x, r, pairs=pairs, tolerance=2e-5, batch_size=65_536, progress=False
    )
    assert audit.pairs >= pairs / 1.6
    assert audit.passed, audit.summary()


def test_the_other_baselines_do_not_claim_to_be_monotone_and_are_not() -> None:
    for name, make in OTHERS.items():
        model, x, r = counter_trained(make)
        assert not model.strict, name
        assert not audit_monotonicity(model, x, r, pairs=4_000, progress=False).passed, name


def test_surface_is_predict_at_every_pair() -> None:
    """Cached, not cached and row by row give the same predictions, in both precisions."""
    x, revenues = rows(3)[0], rows(4, seed=1)[1]
    precisions = ((torch.float32, 1e-6), (torch.float64, 1e-12))
    for name, (dtype, tolerance) in itertools.product(ALL, precisions):
        model = copy.deepcopy(trained(name)).to(dtype)
        cached = model.surface(x, revenues)
        assert (cached.shape, cached.dtype) == ((3, 4), dtype), name
        pairs = [[model.predict(x[i : i + 1], r[None])[0] for r in revenues] for i in range(3)]
        by_row = torch.tensor(pairs, dtype=dtype)
        for other in (model.surface(x, revenues, cached=False), by_row):
            torch.testing.assert_close(cached, other, rtol=0.0, atol=tolerance, msg=name)


def test_gradients_reach_every_parameter() -> None:
    for name, make in (ALL | NARROW).items():
        for model in (made(make), trained(name)):
            model.zero_grad(set_to_none=True)
            model.loss(*rows(500)).backward()
            for place, parameter in model.named_parameters():
                assert parameter.grad is not None, (name, place)
                assert parameter.grad.any(), (name, place)
                assert not parameter.grad.isnan().any(), (name, place)


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    *(
        (make, {"hidden": 0}, "hidden must be an integer of at least 1, got 0")
        for name, make in ALL.items()
        if name not in ("MM, canonical", "SMM, canonical")
    ),
    (baselines.CMNN, {"form": "canonical"}, "form must be one of .*'type2'.*, got 'canonical'"),
    (baselines.PosNN, {"form": "type1"}, "form must be one of .*'canonical'.*, got 'type1'"),
    (baselines.SMM, {"form": "smooth"}, "form must be one of .* got 'smooth'"),
    (baselines.MM, {"groups": 0}, "groups must be an integer of at least 1, got 0"),
    (baselines.SMM, {"units": 0}, "units must be an integer of at least 1, got 0"),
    (baselines.SMNN, {"form": "paper"}, "form must be one of .*'released'.*, got 'paper'"),
    (baselines.SMNN, {"layers": 0}, "layers must be an integer of at least 1, got 0"),
    (baselines.LipschitzMonotone, {"hidden": 5}, "hidden must be even, .* got 5"),
    (baselines.LipschitzMonotone, {"bound": 0.0}, r"bound must be .* above 0, got 0\.0"),
    (baselines.Hint, {"weight": -1.0}, r"weight must be a number above 0, got -1\.0"),
    (baselines.Hint, {"max_shift": 0.0}, r"max_shift must be a number above 0, got 0\.0"),
    (baselines.Hint, {"pairs": "all"}, "pairs must be one of .*'comparable'.*, got 'all'"),
    (baselines.PWL, {"weight": 0.0}, r"weight must be a number above 0, got 0\.0"),
    (baselines.MLP, {"response": "ordinal"}, "response must be one of .*, got 'ordinal'"),
]


def test_invalid_options_are_refused() -> None:
    for make, options, message in REFUSED:
        with pytest.raises(ValueError, match=message):
            make(**{"x_dim": X_DIM, "r_dim": R_DIM, **options})
