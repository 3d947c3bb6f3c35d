"""A user of the estimators: a table, a fit, predictions, audits, and a folder."""

import tempfile

import numpy as np
import numpy.typing as npt
import pandas as pd
from typing_extensions import assert_type

from pyro_gcm import MonotonicityAudit, audit_monotonicity, load, save
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier

Array = npt.NDArray[np.float64]


def fitted(X: pd.DataFrame, late: npt.NDArray[np.bool_]) -> GCMClassifier:
    return GCMClassifier(monotonic_cst={"debt": 1}, members=2, epochs=1).fit(X, late)


def score(x: Array, r: Array) -> Array:
    return np.asarray(r[:, 0] - 0.001 * x[:, 0])


def main() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"debt": rng.uniform(0, 50, 60), "job": rng.choice(["clerk", "smith"], 60)})
    risk = fitted(X, X["debt"].to_numpy() + 10 * rng.standard_normal(60) > 25)
    assert_type(risk.predict_proba(X), npt.NDArray[np.float64])
    bands = risk.predict_bands(X, 0.9)
    width: npt.NDArray[np.float64] = bands.upper - bands.lower
    print(width.mean(), risk.required(X, "debt", 0.5, below=True)["required"].max())
    audit = audit_table(risk, X, pairs=30, progress=False)
    assert_type(audit, MonotonicityAudit)
    assert_type(audit.passed, bool)
    x, r = rng.random((60, 1)), X[["debt"]].to_numpy()
    rate: float = audit_monotonicity(score, x, r, pairs=30, progress=False).rate
    print(audit.summary(), rate)
    with tempfile.TemporaryDirectory() as folder:
        save(risk, f"{folder}/model", metrics={"rows": len(X)})
        again = load(f"{folder}/model")
    assert isinstance(again, GCMClassifier)
    assert (again.predict_proba(X) == risk.predict_proba(X)).all()


if __name__ == "__main__":
    main()
