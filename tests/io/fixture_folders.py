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
from pyro_gcm import GCM, IGCM, fit, fit_members
from pyro_gcm.estimators import (
    GCMClassifier,
    GCMOrdinal,
    GCMRegressor,
    GCMSurvival,
    IGCMRegressor,
)
from pyro_gcm.models.member_settings import MemberSettings

FIXTURES = Path(__file__).with_name("fixtures")


def data() -> tuple[Tensor, Tensor, Tensor]:
    """Rows of three covariates, two revenues and a binary outcome."""
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(120, 3, generator=g), 50.0 + 10.0 * torch.randn(120, 2, generator=g)
    score = x[:, 0] + (r - 50.0).sum(1) / 15.0 + torch.randn(120, generator=g)
    return x, r, (score > 0.0).float()


def models() -> dict[str, GCM | IGCM]:
    """A model of each kind, trained for a few steps."""
    x, r, y = data()
    options = {"num_samples": 16, "hidden": 6, "z_dim": 2}
    gcm = GCM(3, 2, prior="mixture", revenue_map="piecewise_linear", p0="constant", **options)
    igcm = IGCM(3, 2, response="continuous", guide="amortised", seed=5, name="igcm", **options)
    settings = MemberSettings(members=3, width=8, bins=4, knots=6, epochs=3)
    fit(gcm.double(), x, r, y, epochs=3, progress=False)
    fit(igcm, x, r, 3.0 + 2.0 * y + x[:, 1], epochs=3, progress=False)
    members = fit_members(x, r, y, settings=settings, early_stopping=False, progress=False).model
    return {"gcm": gcm, "igcm": igcm, "members": members}


def table(rows: int = 90) -> tuple[pd.DataFrame, np.ndarray]:
    """Named columns of several kinds, with missing values, and yes or no."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "income": rng.lognormal(10.0, 1.0, rows),
            "grade": pd.Categorical(rng.choice(list("ABC"), rows), list("CBA"), ordered=True),
            "job": rng.choice(["clerk", "färber", "smith"], rows),
            "owner": rng.random(rows) < 0.5,
        }
    )
    y = np.where(X["income"].to_numpy() > 2e4 * rng.random(rows) * 2, "yes", "no")
    X.loc[::9, ["income", "job"]] = None
    return X, y


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
    if isinstance(model, GCMClassifier):
        draws = model.predict_bands(new_rows()).draws
        return {
            "predict_proba": torch.from_numpy(model.predict_proba(new_rows())),
            "draws of bands": torch.from_numpy(np.ascontiguousarray(draws)),
        }
    if isinstance(model, GCMOrdinal):
        return {"predict_proba": torch.from_numpy(model.predict_proba(new_rows()))}
    if isinstance(model, GCMSurvival):
        return {"risk": torch.from_numpy(model.predict(new_rows()))}
    if isinstance(model, IGCMRegressor | GCMRegressor):
        return {"predict": torch.from_numpy(np.asarray(model.predict(new_rows())))}
    return {
        "predict": model.predict(x, r),
        "predict with 200 draws": model.predict(x, r, num_samples=200),
        "surface": model.surface(x[:5], r[:7]),
    }


def main() -> None:
    """Write the folders of this version."""
    folder = FIXTURES / pyro_gcm.__version__
    if folder.exists():
        sys.exit(f"{folder} is there: what a version saved stays as it is")
    x, r, _ = data()
    arrays = {"x": x[:20], "r": r[:20]}
    for name, model in {**models(), **estimators()}.items():
        pyro_gcm.save(model, folder / name)
        found = computed(model, arrays["x"], arrays["r"])
        arrays |= {f"{name}: {key}": value.contiguous() for key, value in found.items()}
    save_file(arrays, folder / "computed.safetensors")


if __name__ == "__main__":
    main()
