"""MM and SMM against the formulas of their forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from baseline_checks import Array, arrays, assert_score_is, made, two_stream

from pyro_gcm.baselines.min_max import MM, SMM


def linear_pieces(model: MM, x: Array, r: Array) -> Array:
    w = arrays(model.pieces)
    return np.asarray(x @ w["x_layer.weight"].T + w["x_layer.bias"] + r @ np.exp(w["log_weight"]).T)


def smooth_maximum(values: list[float], beta: float) -> float:
    return float(np.log(sum(np.exp(beta * value) for value in values)) / beta)


def smooth_minimum(values: list[float], beta: float) -> float:
    return -smooth_maximum([-value for value in values], beta)


def in_groups(pieces: Array, groups: int, units: int) -> list[list[list[float]]]:
    return [
        [[float(row[k * units + j]) for j in range(units)] for k in range(groups)] for row in pieces
    ]


def test_paper_form_of_mm_is_the_maximum_of_minima() -> None:
    model = made(MM, hidden=5)

    def reference(x: Array, r: Array) -> Array:
        rows = in_groups(two_stream(model.pieces, x, r), 3, 3)
        return np.array([max(min(group) for group in row) for row in rows])

    assert_score_is(model, reference)


def test_canonical_form_of_mm_is_the_minimum_of_maxima_of_linear_pieces() -> None:
    model = made(MM, form="canonical")

    def reference(x: Array, r: Array) -> Array:
        rows = in_groups(linear_pieces(model, x, r), 6, 6)
        return np.array([min(max(group) for group in row) for row in rows])

    assert_score_is(model, reference)


def test_paper_form_of_smm_has_beta_four() -> None:
    model = made(SMM, hidden=5)

    def reference(x: Array, r: Array) -> Array:
        rows = in_groups(two_stream(model.pieces, x, r), 3, 3)
        return np.array(
            [smooth_maximum([smooth_minimum(g, 4.0) for g in row], 4.0) for row in rows]
        )

    assert_score_is(model, reference)
    assert "log_beta" not in dict(model.named_parameters())


@pytest.mark.parametrize("log_beta", [None, 0.7], ids=["start", "learned"])
def test_canonical_form_of_smm_learns_beta(log_beta: float | None) -> None:
    model = made(SMM, form="canonical")
    if log_beta is not None:
        model.log_beta.data.fill_(log_beta)
    beta = np.exp(-1.0 if log_beta is None else log_beta)

    def reference(x: Array, r: Array) -> Array:
        rows = in_groups(linear_pieces(model, x, r), 6, 6)
        return np.array(
            [smooth_minimum([smooth_maximum(g, beta) for g in row], beta) for row in rows]
        )

    assert_score_is(model, reference)


@pytest.mark.parametrize("form", ["paper", "canonical"])
@pytest.mark.parametrize("method", [MM, SMM])
def test_groups_and_units_are_the_requested_ones(method: type[MM], form: str) -> None:
    model = made(method, form=form, groups=2, units=4)
    values = torch.arange(8.0).double()
    model.pieces = _Constant(values)
    beta = 4.0 if form == "paper" else float(np.exp(-1.0))
    groups = [list(map(float, range(4))), list(map(float, range(4, 8)))]
    if method is MM:
        wanted = 4.0 if form == "paper" else 3.0
    elif form == "paper":
        wanted = smooth_maximum([smooth_minimum(group, beta) for group in groups], beta)
    else:
        wanted = smooth_minimum([smooth_maximum(group, beta) for group in groups], beta)
    assert model.decode((), torch.zeros(1)).item() == pytest.approx(wanted, abs=1e-12)


class _Constant(torch.nn.Module):
    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        self.values = values

    def decode(self, encoded: tuple[torch.Tensor, ...], r: torch.Tensor) -> torch.Tensor:
        return self.values


def test_smooth_extrema_converge_to_the_exact_ones() -> None:
    smooth, sharp = made(SMM, form="canonical"), made(MM, form="canonical")
    smooth.log_beta.data.fill_(np.log(1e7))
    sharp.load_state_dict({k: v for k, v in smooth.state_dict().items() if k != "log_beta"})
    x, r = torch.randn(20, 3).double(), torch.randn(20, 2).double()
    torch.testing.assert_close(smooth(x, r), sharp(x, r), rtol=0.0, atol=1e-5)
