"""What earlier versions saved is loaded, and predicts what it did."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fixture_folders import FIXTURES, FOLDERS, computed
from safetensors.torch import load_file

import pyro_gcm
from pyro_gcm.io import read_card

#: What was saved by each version.
KINDS = {
    "0.1.0": {"classifier", "gcm", "igcm", "members", "regressor"},
    "0.2.0": {
        *("classifier", "distribution", "gcm", "igcm", "members", "ordinal", "regressor"),
        "survival",
    },
}


@pytest.mark.parametrize("version", KINDS)
def test_there_is_one_folder_of_each_kind_and_they_are_small(version: str) -> None:
    assert {path.name for path in FOLDERS if path.parent.name == version} == KINDS[version]
    files = (FIXTURES / version).rglob("*")
    assert sum(path.stat().st_size for path in files if path.is_file()) < 300_000


def test_this_version_has_its_folders() -> None:
    assert pyro_gcm.__version__ in KINDS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name} {path.name}")
def test_a_folder_of_an_earlier_version_predicts_what_it_did(folder: Path) -> None:
    wanted = load_file(folder.parent / "computed.safetensors")
    model = pyro_gcm.load(folder)
    assert read_card(folder)["versions"]["pyro_gcm"] == folder.parent.name
    for key, values in computed(model, wanted["x"], wanted["r"]).items():
        stored = wanted[f"{folder.name}: {key}"]
        assert values.dtype == stored.dtype
        # On another machine products and special functions round otherwise.
        within = 1e-12 if folder.name == "gcm" else 5e-7
        torch.testing.assert_close(values, stored, rtol=within, atol=within)
