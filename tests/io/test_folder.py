"""What is in a folder: nothing is lost in writing, and nothing but what was saved is read."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm.io import DamagedFolder, read_card
from pyro_gcm.io import folder as folders
from pyro_gcm.io.archive import manifest_of
from pyro_gcm.io.folder import read_folder
from pyro_gcm.io.plain_data import written


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / "saved")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def sealed(folder: Path, **changed: bytes | None) -> Path:
    """The folder with other files, and a manifest of them, as a forger would write it."""
    files = read_folder(folder)
    named = {name.replace("_", "."): raw for name, raw in changed.items()}
    kept = {k: v for k, v in {**files, **named}.items() if v is not None}
    return folders.write_folder(folder, kept, overwrite=True)


def with_card(folder: Path, **changed: Any) -> Path:
    card = {**read_card(folder), **changed}
    return sealed(folder, card_json=json.dumps(card, indent=1).encode() + b"\n")


# Writing


def test_a_folder_has_no_pickle_and_the_same_bytes_for_the_same_model(tmp_path: Path) -> None:
    first, second = (pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / name) for name in "ab")
    assert contents(first) == contents(second)
    assert set(contents(first)) == {"card.json", "manifest.json", "weights.safetensors"}
    for raw in contents(first).values():
        with pytest.raises(Exception):  # noqa: B017, PT011
            pickle.loads(raw)


def test_a_folder_is_replaced_only_when_asked_for(saved: Path) -> None:
    before, other = contents(saved), GCM(2, 1, seed=2)
    with pytest.raises(FileExistsError, match="pass overwrite=True to replace it"):
        pyro_gcm.save(other, saved)
    assert contents(saved) == before
    pyro_gcm.save(other, saved, overwrite=True)
    assert pyro_gcm.load(saved).seed == 2
    assert os.listdir(saved.parent) == ["saved"]


def test_an_empty_folder_is_taken_and_parents_are_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/inner"):
        assert pyro_gcm.load(pyro_gcm.save(GCM(2, 1, seed=3), tmp_path / name)).seed == 3


def test_no_other_file_is_lost(saved: Path, tmp_path: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"beside which nothing is saved: notes\.txt"):
        pyro_gcm.save(GCM(2, 1), saved, overwrite=True)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "data.csv").write_text("1")
    with pytest.raises(FileExistsError, match=r"beside which nothing is saved: data\.csv"):
        pyro_gcm.save(GCM(2, 1), tmp_path / "own", overwrite=True)
    with pytest.raises(FileExistsError, match="is a file"):
        pyro_gcm.save(GCM(2, 1), tmp_path / "own" / "data.csv", overwrite=True)
    assert (tmp_path / "own" / "data.csv").read_text() == "1"


def test_a_link_to_a_folder_is_followed_to_it(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(saved)
    pyro_gcm.save(GCM(2, 1, seed=4), tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert pyro_gcm.load(tmp_path / "link").seed == pyro_gcm.load(saved).seed == 4


# Reading


def test_no_folder_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        pyro_gcm.load(tmp_path / "nothing")
    with pytest.raises(DamagedFolder, match=r"manifest\.json is missing"):
        pyro_gcm.load(tmp_path)


@pytest.mark.parametrize("name", ["weights_safetensors", "card_json", "extra_pkl"])
def test_a_pickle_under_a_forged_manifest_is_refused_too(name: str, saved: Path) -> None:
    sealed(saved, **{name: b"cos\nabort\n(tR."})  # a pickle that ends the process
    with pytest.raises(DamagedFolder, match=name.replace("_", r"\.")):
        pyro_gcm.load(saved)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", "", "a\\b", "manifest.json"])
def test_names_outside_of_the_folder_are_refused(name: str, saved: Path) -> None:
    files = {**read_folder(saved), name: b"x"}
    (saved / "manifest.json").write_bytes(manifest_of(files))
    with pytest.raises(DamagedFolder, match=r"manifest\.json lists .* no name of a saved file"):
        pyro_gcm.load(saved)


def forged(manifest: Any) -> bytes:
    """A manifest with its digest."""
    manifest["sha256"] = hashlib.sha256(written(manifest)).hexdigest()
    return written(manifest)


ENTRY = {"size": 1, "sha256": "0" * 64}
MANIFESTS = {
    "other digest": (b'{\n "format": 1,\n "files": {},\n "sha256": "0"\n}\n', "SHA-256"),
    "newer": (forged({"format": 2, "files": {}}), "install a newer one"),
    "boolean": (forged({"format": True, "files": {}}), "format True"),
    "no files": (forged({"format": 1}), "lists no files"),
    "more": (forged({"format": 1, "files": {}, "run": "x"}), "lists no files"),
    "list": (b"[]\n", "no JSON object"),
    "no entry": (forged({"format": 1, "files": {"a": 3}}), "size and sha256 of a"),
    "size": (forged({"format": 1, "files": {"a": {**ENTRY, "size": 1.0}}}), "no valid size"),
    "digest": (forged({"format": 1, "files": {"a": {**ENTRY, "sha256": "0"}}}), "no valid size"),
    "NaN": (b'{\n "format": NaN\n}\n', "NaN is no number"),
    "too large number": (b"[\n 1e999\n]\n", "no valid JSON"),
    "long number": (b"1" * 5000 + b"\n", "no valid JSON"),
    "duplicate keys": (b'{\n "format": 1,\n "format": 1\n}\n', "duplicate keys"),
    "other layout": (b'{"format": 1}', "another layout"),
    "deep": (b"[" * 100_000, "no valid JSON"),
    "not ASCII": ('"ä"\n'.encode(), "no valid JSON"),
    "huge": (b" " * (5 << 20), "too large"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_wrong_manifest_is_refused(kind: str, saved: Path) -> None:
    raw, wanted = MANIFESTS[kind]
    (saved / "manifest.json").write_bytes(raw)
    with pytest.raises(DamagedFolder, match=wanted) as caught:
        pyro_gcm.load(saved)
    assert len(str(caught.value).splitlines()) == 1


def gcm(**arguments: Any) -> dict[str, Any]:
    return {"type": "models.GCM", "arguments": {"x_dim": 2, "r_dim": 1, **arguments}}


ARCHITECTURES: dict[str, tuple[Any, str]] = {
    "unknown class": ({"type": "os.system", "arguments": {}}, "no class is registered as"),
    "unknown argument": (gcm(code="1"), "GCM has no argument 'code'"),
    "missing argument": ({"type": "models.GCM", "arguments": {"x_dim": 2}}, "missing"),
    "wrong argument": (gcm(x_dim="2"), "x_dim must be"),
    "other sizes": (gcm(x_dim=3), r"shape \(16, 2\), but"),
    "more tensors": (gcm(prior="mixture"), "tensor .* is missing"),
    "fewer tensors": ({"type": "nets.Standardizer", "arguments": {"dim": 2}}, "is missing"),
    "nothing": ({"type": "nets.Identity", "arguments": {}}, "tensor .* belongs to nothing"),
    "distribution": (gcm(cost_family={"distribution": "torch"}), "'torch' is no distribution"),
    "dunder": (gcm(cost_family={"distribution": "__builtins__"}), "is no distribution"),
    "same as nothing": (gcm(prior={"same_as": "guide"}), "guide"),
    "unhashable": (gcm(prior={"same_as": []}), "unhashable"),
    "unknown keys": (gcm(prior={"import": "os"}), "unknown keys"),
    "a list": ({"type": "models.GCM", "arguments": []}, "must have an object"),
    "no attributes": ({**gcm(), "attributes": {}}, "training"),
    "data of a module": ({"type": "models.GCM", "data": {}, "parts": {}}, "saved_state"),
}


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_forged_architecture_is_refused(kind: str, saved: Path) -> None:
    architecture, wanted = ARCHITECTURES[kind]
    with_card(saved, architecture=architecture, **{"class": architecture["type"]})
    with pytest.raises(DamagedFolder, match=f"card.json.*{wanted}"):
        pyro_gcm.load(saved)


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"versions": None}, "'versions' of a wrong type"),
        ({"architecture": []}, "'architecture' of a wrong type"),
        ({"class": "models.IGCM"}, "names another class"),
        ({"run": 1}, "must have just the keys"),
    ],
)
def test_a_forged_card_is_refused(changed: Any, wanted: str, saved: Path) -> None:
    with_card(saved, **changed)
    for reads in (pyro_gcm.load, read_card):
        with pytest.raises(DamagedFolder, match=rf"card\.json .*{wanted}"):
            reads(saved)


def test_a_card_or_weights_that_are_not_listed_are_missed(saved: Path) -> None:
    files = read_folder(saved)
    for name in files:
        kept = {k: v for k, v in files.items() if k != name}
        folders.write_folder(saved, kept, overwrite=True)
        with pytest.raises(DamagedFolder, match=f"{name} is missing"):
            pyro_gcm.load(saved)


def test_tensors_of_another_model_or_type_are_refused(saved: Path, tmp_path: Path) -> None:
    from safetensors.torch import load, save

    other = pyro_gcm.save(GCM(2, 1, hidden=5), tmp_path / "other")
    weights = read_folder(other)["weights.safetensors"]
    sealed(saved, weights_safetensors=weights)
    with pytest.raises(DamagedFolder, match=r"tensor 'z_prior\.net\.0\.weight' has shape \(5, 2\)"):
        pyro_gcm.load(saved)
    tensors = load(weights)
    tensors["_objective"] = tensors["_objective"].float()
    sealed(other, weights_safetensors=save(tensors))
    with pytest.raises(DamagedFolder, match=r"tensor '_objective' has dtype torch\.float32"):
        pyro_gcm.load(other)
