"""MM and SMM against the formulas of their forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from baseline_checks import Array, arrays, assert_score_is, made, two_stream

from pyro_gcm.baselines.min_max import MM, SMM


def maximum(values: Array, beta: float | None, sign: float = 1.0) -> Array:
    """The maximum (sign 1) or minimum (-1) over the last axis, or sign LSE(sign beta v) / beta."""
    v = sign * values
    return sign * (v.max(-1) if beta is None else np.log(np.exp(beta * v).sum(-1)) / beta)


@pytest.mark.parametrize("sizes", [{}, {"groups": 2, "units": 4}], ids=["default", "2 x 4"])
@pytest.mark.parametrize(
    ("method", "form", "beta"),
    [
        (MM, "paper", None),
        (MM, "canonical", None),
        (SMM, "paper", 4.0),
        (SMM, "canonical", np.exp(-1.0)),
        (SMM, "canonical", np.exp(0.7)),
    ],
    ids=["MM paper", "MM canonical", "SMM paper", "SMM canonical", "SMM learned"],
)
def test_score_is_the_extremum_over_groups_of_pieces(
    method: type[MM], form: str, beta: float | None, sizes: dict[str, int]
) -> None:
    model = made(method, hidden=5, form=form, **sizes)
    assert ("log_beta" in dict(model.named_parameters())) == (method is SMM and form != "paper")
    if "log_beta" in dict(model.named_parameters()):
        assert model.log_beta == -1.0
        model.log_beta.data.fill_(np.log(beta))
    default = 3 if form == "paper" else 6
    shape = (-1, sizes.get("groups", default), sizes.get("units", default))

    def reference(x: Array, r: Array) -> Array:
        if form == "paper":
            return maximum(maximum(two_stream(model.pieces, x, r).reshape(shape), beta, -1), beta)
        return maximum(maximum(linear_pieces(x, r).reshape(shape), beta), beta, -1)

    def linear_pieces(x: Array, r: Array) -> Array:
        w = arrays(model.pieces)
        free = x @ w["x_layer.weight"].T + w["x_layer.bias"]
        return np.asarray(free + r @ np.exp(w["log_weight"]).T)

    assert_score_is(model, reference)


def test_smooth_extrema_converge_to_the_exact_ones() -> None:
    smooth, sharp = made(SMM, form="canonical"), made(MM, form="canonical")
    smooth.log_beta.data.fill_(np.log(1e7))
    sharp.load_state_dict({k: v for k, v in smooth.state_dict().items() if k != "log_beta"})
    x, r = torch.randn(20, 3).double(), torch.randn(20, 2).double()
    torch.testing.assert_close(smooth(x, r), sharp(x, r), rtol=0.0, atol=1e-5)
