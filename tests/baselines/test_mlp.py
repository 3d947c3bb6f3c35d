"""The unconstrained MLP against its formula."""

from __future__ import annotations

import numpy as np
from baseline_checks import Array, arrays, assert_score_is, decreases, made

from pyro_gcm.baselines import MLP


def test_score_is_the_mlp_of_covariates_and_revenues() -> None:
    model = made(MLP, hidden=5)
    w = arrays(model)
    first = np.concatenate([w["x_layer.weight"], w["r_layer.weight"]], 1)

    def reference(x: Array, r: Array) -> Array:
        h = np.tanh(np.concatenate([x, r], 1) @ first.T + w["x_layer.bias"])
        h = np.tanh(h @ w["hidden.weight"].T + w["hidden.bias"])
        return np.asarray((h @ w["output.weight"].T + w["output.bias"])[:, 0])

    assert_score_is(model, reference)
    assert decreases(model, pairs=1000) > 100
