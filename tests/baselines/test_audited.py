"""Every construction that claims to be monotone passes a million pairs of the auditor."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from pyro_gcm import audit_monotonicity, baselines
from pyro_gcm.baselines import Baseline, fit

STRICT: dict[str, Any] = {
    "PosNN": baselines.PosNN,
    "PosNN, canonical": partial(baselines.PosNN, form="canonical"),
    "MM": baselines.MM,
    "MM, canonical": partial(baselines.MM, form="canonical"),
    "SMM": baselines.SMM,
    "SMM, canonical": partial(baselines.SMM, form="canonical"),
    "CMNN": baselines.CMNN,
    "CMNN, type 1": partial(baselines.CMNN, form="type1"),
    "CMNN, type 2": partial(baselines.CMNN, form="type2"),
    "SMNN": baselines.SMNN,
    "Lipschitz": baselines.LipschitzMonotone,
    "Switch": baselines.SwitchMonotone,
}


def trained(make: Any) -> tuple[Baseline, torch.Tensor, torch.Tensor]:
    """A model in float64 that has seen outcomes which fall with the first revenue."""
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(2_000, 3, generator=g), torch.randn(2_000, 3, generator=g)
    y = (x[:, 0] - r[:, 0] + r[:, 1] * x[:, 1] > 0).float()
    torch.manual_seed(0)
    model: Baseline = make(3, 3, hidden=16)
    fit(model, x, r, y, epochs=2, batch_size=100, progress=False)
    return model.double(), x, r


@pytest.mark.parametrize("name", STRICT)
def test_a_million_pairs_hold_no_violation(name: str) -> None:
    model, x, r = trained(STRICT[name])
    assert model.strict
    audit = audit_monotonicity(model, x, r, pairs=1_600_000, batch_size=65_536, progress=False)
    assert audit.pairs >= 10**6
    assert audit.passed, audit.summary()


@pytest.mark.parametrize("name", STRICT)
def test_a_mean_in_float32_holds_none_after_fast_training(name: str) -> None:
    g = torch.Generator().manual_seed(1)
    x, r = torch.randn(2_000, 3, generator=g), torch.randn(2_000, 3, generator=g)
    y = x[:, 0] + r.sum(1) + 0.1 * torch.randn(2_000, generator=g)
    torch.manual_seed(0)
    model: Baseline = STRICT[name](3, 3, response="continuous")
    fit(model, x, r, y, epochs=15, batch_size=100, learning_rate=0.05, progress=False)
    audit = audit_monotonicity(model, x, r, pairs=120_000, batch_size=16_384, progress=False)
    assert audit.passed, audit.summary()


@pytest.mark.parametrize("make", [baselines.MLP, baselines.Hint, baselines.PWL])
def test_the_others_do_not_claim_it_and_the_same_audit_finds_violations(make: Any) -> None:
    model, x, r = trained(make)
    assert not model.strict
    assert not audit_monotonicity(model, x, r, pairs=10_000, progress=False).passed
