"""Folders that a version of the library saved, with what it predicted, for all later versions.

    python tests/io/fixture_folders.py      writes those of this version, if there are none yet

They are never written anew: a later version has to load them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file
from torch import Tensor

import pyro_gcm
from pyro_gcm import GCM, IGCM
from pyro_gcm.estimators import GCMClassifier, GCMOrdinal, GCMRegressor, GCMSurvival, IGCMRegressor

FIXTURES = Path(__file__).with_name("fixtures")
#: Of models and of estimators, of each version.
FOLDERS = sorted(path.parent for path in FIXTURES.glob("*/*/manifest.json"))
#: Kinds of models, by the names of their folders.
MODELS = {
    "gcm": "sigmoid and laplace costs",  # in float64
    "igcm": "implicit",
    "members": "built members, binary",
}


def table() -> tuple[pd.DataFrame, np.ndarray]:
    """Named columns of several kinds, with missing values, and yes or no."""
    import saved_estimators

    X, y = saved_estimators.table(90)
    return X[["income", "grade", "job", "owner"]], y.to_numpy()


def new_rows() -> pd.DataFrame:
    """Rows of such a table, in another order of the columns."""
    return pd.DataFrame(
        {
            "job": ["clerk", "färber", None, "never seen", "smith"],
            "grade": ["A", "B", "C", None, "B"],
            "income": [1e3, 2e4, float("nan"), 4e4, 1e6],
            "owner": [True, False, False, True, True],
        }
    )


def estimators() -> dict[str, Any]:
    """A strict and an implicit one, and the other kinds of outcome."""
    X, y = table()
    options = {"monotonic_cst": {"income": 1, "grade": 1}, "hidden": 6, "epochs": 3}
    strict = {**options, "members": 2}
    times = np.empty(len(X), dtype=[("event", bool), ("time", float)])
    times["event"], times["time"] = y == "yes", 1.0 + np.arange(len(X)) % 7
    return {
        "classifier": GCMClassifier(**strict).fit(X, y),
        "regressor": IGCMRegressor(**options).fit(X, 2.0 + X.owner),
        "ordinal": GCMOrdinal(**strict).fit(X, np.arange(len(X)) % 3),
        "survival": GCMSurvival(**strict, horizon=3.0).fit(X, times),
        "distribution": GCMRegressor(**strict, response="distribution").fit(X, times["time"]),
    }


def computed(model: Any, x: Tensor, r: Tensor) -> dict[str, Tensor]:
    """Predictions that are compared."""
    if isinstance(model, GCM | IGCM):
        return {
            "predict": model.predict(x, r),
            "predict with 200 draws": model.predict(x, r, num_samples=200),
            "surface": model.surface(x[:5], r[:7]),
        }
    X = new_rows()
    if isinstance(model, GCMClassifier | GCMOrdinal):
        found = {"predict_proba": model.predict_proba(X)}
    else:
        found = {"risk" if isinstance(model, GCMSurvival) else "predict": model.predict(X)}
    if isinstance(model, GCMClassifier):
        found["draws of bands"] = model.predict_bands(X).draws
    return {key: torch.from_numpy(np.ascontiguousarray(values)) for key, values in found.items()}


def main() -> None:
    """Write the folders of this version."""
    folder = FIXTURES / pyro_gcm.__version__
    if folder.exists():
        sys.exit(f"{folder} is there: what a version saved stays as it is")
    sys.path.append(str(Path(__file__).parents[1]))
    from saved_models import model_and_rows

    made = {name: model_and_rows(kind) for name, kind in MODELS.items()}
    x, r, *_ = made["gcm"][1]
    arrays = {"x": x[:20], "r": r[:20]}
    models = {name: model for name, (model, _) in made.items()}
    for name, model in {**models, **estimators()}.items():
        pyro_gcm.save(model, folder / name)
        found = computed(model, arrays["x"], arrays["r"])
        arrays |= {f"{name}: {key}": value.contiguous() for key, value in found.items()}
    save_file(arrays, folder / "computed.safetensors")


if __name__ == "__main__":
    main()
