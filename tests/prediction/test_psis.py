"""Pareto shape and effective sample size of weights whose distribution is known."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from pyro_gcm.prediction import effective_sample_size, pareto_k

N = 4000


def pareto_log_weights(k: float, seed: int = 0) -> Tensor:
    """Weights with Pr(w > t) = t^(-1/k), every 1/k-th moment of which is infinite."""
    generator = np.random.default_rng(seed)
    return torch.from_numpy(k * generator.standard_exponential((N, 8)))


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9, 1.5])
def test_shape_of_pareto_weights_is_found(k: float) -> None:
    # 190 draws in the tail: the standard error is about (1 + k) / sqrt(190), 0.05 for the mean.
    assert pareto_k(pareto_log_weights(k)).mean().item() == pytest.approx(k, abs=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_a_common_factor_changes_nothing(dtype: torch.dtype) -> None:
    log_w = torch.randn(500, 3, generator=torch.Generator().manual_seed(1)).to(dtype)
    for function in (pareto_k, effective_sample_size):
        value = function(log_w)
        assert value.dtype == dtype
        assert value.shape == (3,)
        torch.testing.assert_close(function(log_w + 200.0), value, rtol=1e-3, atol=1e-3)


def test_equal_weights_have_no_tail() -> None:
    noise = torch.randn(200, generator=torch.Generator().manual_seed(2))
    rounding = (-3.0 + 1e-6 * noise).float()
    two_levels = torch.where(torch.arange(200) < 100, 0.0, -1.0)
    log_w = torch.stack([torch.zeros(200), rounding, two_levels], dim=1)
    assert pareto_k(log_w).tolist() == [-math.inf] * 3


def test_weights_of_zero_are_weights() -> None:
    log_w = torch.randn(1000, 1, generator=torch.Generator().manual_seed(4)).double()
    half = torch.cat([log_w, torch.full_like(log_w, -math.inf)])
    tiny = torch.cat([log_w, log_w - 600.0])  # the same but for rounding
    assert effective_sample_size(half).item() == pytest.approx(effective_sample_size(log_w).item())
    assert math.isfinite(pareto_k(half).item())
    assert pareto_k(half).item() == pytest.approx(pareto_k(tiny).item(), abs=1e-12)


def test_too_few_weights_for_a_tail_are_not_to_be_relied_on() -> None:
    few = torch.full((1000, 5), -math.inf, dtype=torch.float64)
    few[:50, 0] = torch.randn(50, generator=torch.Generator().manual_seed(5))
    few[:1, 1] = 0.0  # one draw
    few[:, 2] = -1e3 * torch.arange(1000)  # one, and the rest as good as nothing
    few[:, 4] = 0.0  # two heavy draws above ties
    few[:2, 4] = torch.tensor([5.0, 6.0])
    assert pareto_k(few).tolist() == pareto_k(few.tolist()).tolist() == [math.inf] * 5
    assert effective_sample_size(few)[1:4].tolist() == [1.0, 1.0, 0.0]


def test_effective_sample_size_is_that_of_kish() -> None:
    weights = torch.tensor([[1.0, 4.0], [1.0, 2.0], [1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    expected = torch.tensor([4.0, 49.0 / 21.0], dtype=torch.float64)
    torch.testing.assert_close(effective_sample_size(weights.log() - 900.0), expected)


@pytest.mark.parametrize("function", [pareto_k, effective_sample_size])
@pytest.mark.parametrize(
    ("log_weights", "message"),
    [
        (torch.zeros(30), r"shape \[draws, data\].*got shape \(30,\)"),
        (torch.zeros(30, 0), r"shape \[draws, data\]"),
        (torch.full((30, 2), math.nan), "60 NaN or .inf entries, the first in datum 0"),
        (torch.tensor([[0.0, math.inf]]).expand(30, 2), "30 NaN or .inf entries, .* in datum 1"),
    ],
)
def test_what_is_no_weight_is_refused(function: object, log_weights: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(log_weights)  # type: ignore[operator]
    few = torch.arange(30.0)[:, None].log()
    assert math.isfinite(pareto_k(few).item())
    with pytest.raises(ValueError, match="at least 30 draws a datum for a Pareto fit, got 29"):
        pareto_k(few[:29])


# In a container without a home, or where another process writes it at the moment.
def test_arviz_is_imported_where_it_cannot_note_that_it_was() -> None:
    program = "import os, torch; from pyro_gcm.inference.program_arviz import imported_arviz; "
    program += "print(imported_arviz().__name__, os.environ['XDG_CACHE_HOME'])"
    environment = os.environ | {"XDG_CACHE_HOME": os.devnull}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert run.stdout.decode().split() == ["arviz", os.devnull], run.stderr.decode()
