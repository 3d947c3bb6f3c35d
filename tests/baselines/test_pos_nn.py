"""PosNN against the formulas of its two forms."""

from __future__ import annotations

import numpy as np
import pytest
from baseline_checks import Array, arrays, assert_score_is, made, positive, two_stream

from pyro_gcm.baselines.pos_nn import PosNN


def test_paper_form_is_the_two_stream_body() -> None:
    model = made(PosNN, hidden=5)
    assert_score_is(model, lambda x, r: two_stream(model.network, x, r)[:, 0])


def test_canonical_form_is_one_layer_of_sigmoids() -> None:
    model = made(PosNN, hidden=5, form="canonical")
    w = arrays(model.network)

    def reference(x: Array, r: Array) -> Array:
        u = x @ w["x_layer.weight"].T + w["x_layer.bias"] + r @ positive(w["r_layer.weight"]).T
        out = (1.0 / (1.0 + np.exp(-u))) @ positive(w["output.weight"]).T + w["output.bias"]
        return np.asarray(out[:, 0])

    assert_score_is(model, reference)


def test_score_computed_by_hand() -> None:
    model = PosNN(1, 1, hidden=1, form="canonical")
    parts = model.network
    raw = np.log(np.expm1(10.0 * 2.0)) / 10.0  # P(raw) = 2
    for parameter, value in (
        (parts.x_layer.weight, -1.0),
        (parts.x_layer.bias, 0.5),
        (parts.r_layer.weight, raw),
        (parts.output.weight, raw),
        (parts.output.bias, -1.0),
    ):
        parameter.data.fill_(value)
    # 2 sigmoid(-1.5 + 0.5 + 2 * 0.5) - 1 = 0, whose sigmoid is 1/2.
    assert model.predict([[1.5]], [[0.5]]).item() == pytest.approx(0.5, abs=1e-6)
