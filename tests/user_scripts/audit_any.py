"""A user of scikit-learn: does a model without directions fall where it should not?"""

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
from typing_extensions import assert_type

from pyro_gcm import MonotonicityAudit, audit_monotonicity
from pyro_gcm.audit import audit_table

Array = npt.NDArray[np.float64]


def main() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"debt": rng.uniform(0, 50, 200), "income": rng.lognormal(10, 1, 200)})
    y = X["debt"].to_numpy() + 20 * rng.standard_normal(200) > 25
    trees = HistGradientBoostingClassifier(max_iter=20).fit(X, y)
    table = audit_table(trees, X, {"debt": 1}, pairs=30, progress=False)
    assert_type(table, MonotonicityAudit)
    assert_type(table.passed, bool)
    x, r = X[["income"]].to_numpy(), X[["debt"]].to_numpy()

    def score(x: Array, r: Array) -> Array:
        return np.asarray(r[:, 0] - 0.001 * x[:, 0])

    rising = audit_monotonicity(score, x, r, pairs=30, progress=False)
    rate: float = rising.rate
    print(table.summary(), rate)


if __name__ == "__main__":
    main()
