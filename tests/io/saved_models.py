"""Models that are saved in the tests, and what is computed with them."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from zoo import KINDS, Rows, predictions, rows_of, with_units

import pyro_gcm
from pyro_gcm.members import build_members
from pyro_gcm.models.member_settings import MemberSettings

#: Settings of members that are not those by default.
SETTINGS = {
    "binary": MemberSettings(members=3, width=8, bins=4, knots=5, dropout=0.2),
    "continuous": MemberSettings(members=2, width=8, bins=0, scaling="output", alternatives=1),
    "continuous, by likelihood": MemberSettings(members=2, width=8, bins=3, equal_weights=False),
    "quantile": MemberSettings(members=2, width=8, bins=3, steps=0.0, flat=True),
}
NAMES = [*KINDS, *(f"built members, {name}" for name in SETTINGS)]


def model_and_rows(name: str) -> tuple[pyro_gcm.GCM | pyro_gcm.IGCM, Rows]:
    """A model that has learned the units of its rows, with random weights, and its rows."""
    if name in KINDS:
        dtype = torch.float64 if name == "sigmoid and laplace costs" else torch.float32
        return with_units(name, dtype), rows_of(name, dtype=dtype)
    setting = name.partition(", ")[2]
    response = setting.partition(", ")[0]
    columns = rows_of(response if response != "binary" else "plain", dtype=torch.float32)
    model = build_members(
        SETTINGS[setting], 3, columns.r.shape[1], response=response, ordered=[[0, 2]], seed=7
    )
    model.learn_units(*columns[:3])
    model.objective = model.default_objective
    return model, columns


def computed(model: pyro_gcm.GCM | pyro_gcm.IGCM, rows: Rows) -> dict[str, Tensor]:
    """What depends on the weights, at several numbers of draws."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # categorical z and effective sample sizes
        found = predictions(model, rows)
    x, r = rows.x[:40], rows.r[:40]
    for draws in (3, 500):
        found[f"predict with {draws} draws"] = model.predict(x, r, num_samples=draws)
    return found
