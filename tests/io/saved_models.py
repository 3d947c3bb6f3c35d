"""Models that are saved in the tests, and what is computed with them."""

from __future__ import annotations

import warnings
from pathlib import Path

from golden_models import KINDS, built, predictions
from torch import Tensor

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


def model_and_rows(name: str) -> tuple[pyro_gcm.GCM | pyro_gcm.IGCM, tuple[Tensor, ...]]:
    """A model that has learned the units of its rows, with random weights, and its rows."""
    if name in KINDS:
        model, training, (x, r, y, *_) = built(name)
        objective = training.get("objective", model.default_objective)
    else:
        setting = name.partition(", ")[2]
        response = setting.partition(", ")[0]
        _, _, (x, r, y, *_) = built(response if response != "binary" else "plain")
        model = build_members(
            SETTINGS[setting], 3, r.shape[1], response=response, ordered=[[0, 2]], seed=7
        )
        objective = model.default_objective
    model.learn_units(x, r, y)
    model.objective = objective
    return model, (x, r, y)


def computed(model: pyro_gcm.GCM | pyro_gcm.IGCM, rows: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """What depends on the weights, at several numbers of draws."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # categorical z and effective sample sizes
        found = predictions(model, *rows)
    x, r, _ = (part[:40] for part in rows)
    for draws in (3, 500):
        found[f"predict with {draws} draws"] = model.predict(x, r, num_samples=draws)
    return found


def rows_of(name: str) -> tuple[Tensor, ...]:
    return model_and_rows(name)[1]


def main(folder: Path, names: list[str]) -> None:
    """Load every model in a folder, and write there what is computed with it."""
    from safetensors.torch import save_file

    for name in names:
        found = computed(pyro_gcm.load(folder / name), rows_of(name))
        contiguous = {key: value.detach().contiguous() for key, value in found.items()}
        save_file(contiguous, folder / f"{name}.computed")
