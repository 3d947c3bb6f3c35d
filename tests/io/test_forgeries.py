"""Forged folders, whose manifest fits: one error, or what might have been saved."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fixture_folders import FIXTURES
from safetensors.torch import load as tensors_of
from safetensors.torch import save as safetensors_of

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm._utils.archive import manifest_of
from pyro_gcm._utils.plain_data import read, written
from pyro_gcm.io import DamagedFile, MissingPart, read_card
from pyro_gcm.io.folder import read_folder, write_folder

CARD, WEIGHTS, MANIFEST = "card.json", "weights.safetensors", "manifest.json"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / "saved")


def refused(folder: Path, wanted: str, reads: Callable[[Path], Any] = pyro_gcm.load) -> None:
    with pytest.raises(DamagedFile, match=wanted) as caught:
        reads(folder)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", [WEIGHTS, CARD, "extra.pkl"])
def test_a_pickle_and_a_file_that_is_not_listed_are_refused(name: str, saved: Path) -> None:
    files = read_folder(saved)
    ends_the_process = {name: b"cos\nabort\n(tR."}
    write_folder(saved, {**files, **ends_the_process}, overwrite=True)
    refused(saved, name)
    files.pop(name, None)
    write_folder(saved, {**files, "other": b""}, overwrite=True)
    refused(saved, name if name != "extra.pkl" else "other")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", "", "a\\b", MANIFEST])
def test_names_outside_of_the_folder_are_refused(name: str, saved: Path) -> None:
    (saved / MANIFEST).write_bytes(manifest_of({**read_folder(saved), name: b"x"}))
    refused(saved, r"manifest\.json (lists .* no name of a saved file|was changed)")


def sealed(manifest: Any) -> bytes:
    """A manifest with its digest."""
    return written({**manifest, "sha256": hashlib.sha256(written(manifest)).hexdigest()})


MANIFESTS = {
    "newer": (sealed({"format": 2, "files": {}}), "install a newer one"),
    "boolean": (sealed({"format": True, "files": {}}), "was changed"),
    "no files": (sealed({"format": 1}), "files"),
    "more": (sealed({"format": 1, "files": {}, "run": "x"}), "was changed"),
    "list": (b"[]\n", ""),
    "no entry": (sealed({"format": 1, "files": {CARD: 3, WEIGHTS: 3}}), CARD),
    "NaN": (b'{\n "format": NaN\n}\n', "no valid JSON"),
    "duplicate keys": (b'{\n "format": 1,\n "format": 1\n}\n', "duplicate keys"),
    "other layout": (b'{"format": 1}', "another layout"),
    "deep": (b"[" * 100_000, "no valid JSON"),
}


@pytest.mark.parametrize(("raw", "wanted"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_wrong_manifest_is_refused(raw: bytes, wanted: str, saved: Path) -> None:
    (saved / MANIFEST).write_bytes(raw)
    refused(saved, wanted if wanted == CARD else f"manifest.json .*{wanted}")


def gcm(**arguments: Any) -> dict[str, Any]:
    return {"type": "models.GCM", "arguments": {"x_dim": 2, "r_dim": 1, **arguments}}


ARCHITECTURES: dict[str, tuple[Any, str]] = {
    "unknown class": ({"type": "os.system", "arguments": {}}, "no class is registered as"),
    "unknown argument": (gcm(code="1"), "GCM has no argument 'code'"),
    "other sizes": (gcm(x_dim=3), r"shape \(16, 2\)"),
    "more tensors": (gcm(prior="mixture"), "tensor .* is missing"),
    "nothing": ({"type": "nets.Identity", "arguments": {}}, "tensor .* belongs to nothing"),
    "distribution": (gcm(cost_family={"distribution": "torch"}), "'torch' is no distribution"),
    "dunder": (gcm(cost_family={"distribution": "__builtins__"}), "is no distribution"),
    "unknown keys": (gcm(prior={"import": "os"}), "unknown keys"),
    "more keys": ({**gcm(), "import": "os"}, "unknown keys"),
    "data of a module": ({"type": "models.GCM", "data": {}, "parts": {}}, "saved_state"),
}


#: What a forged card has, and what is said by whoever reads it.
CARDS: dict[str, tuple[dict[str, Any], str]] = {
    "versions": ({"versions": None}, "versions.* of its type"),
    "class": ({"class": "models.IGCM"}, "names another class"),
    "more": ({"run": 1}, "must have just"),
    **{
        name: ({"architecture": made, "class": made["type"]}, wanted)
        for name, (made, wanted) in ARCHITECTURES.items()
    },
}


@pytest.mark.parametrize("kind", CARDS)
def test_a_forged_card_is_refused(kind: str, saved: Path) -> None:
    changed, wanted = CARDS[kind]
    card = written({**read_card(saved), **changed})
    write_folder(saved, {**read_folder(saved), CARD: card}, overwrite=True)
    refused(saved, rf"card\.json.*{wanted}")
    if kind not in ARCHITECTURES:
        refused(saved, rf"card\.json .*{wanted}", read_card)


def test_a_tensor_of_another_type_is_refused(saved: Path) -> None:
    files = read_folder(saved)
    tensors = tensors_of(files[WEIGHTS])
    tensors["_objective"] = tensors["_objective"].float()
    write_folder(saved, {**files, WEIGHTS: safetensors_of(tensors)}, overwrite=True)
    refused(saved, r"tensor '_objective' has .* dtype torch\.float32")


#: What stands in the place of a value of a forged card.
FORGED: list[Any] = [None, True, -1, 10**30, "text", [], {}, [[]], {"tensor": "x"}, {"same_as": ""}]


def places(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a tree are."""
    yield place
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield from places(node[key], (*place, key))


def changed(tree: Any, place: tuple[Any, ...], change: Callable[[Any, Any], object]) -> Any:
    """A copy of a tree in which `change` has been called with what holds a value, and its key."""
    tree = copy.deepcopy(tree)
    change(functools.reduce(lambda node, key: node[key], place[:-1], tree), place[-1])
    return tree


def forgeries(tree: Any) -> Iterator[Any]:
    """Other values high up, and anywhere one that is gone or is another one."""
    every, random = [*places(tree)][1:], Random(0)
    for place in every:
        for value in (-1, []) if len(place) < 4 else ():
            yield changed(tree, place, functools.partial(_put, value=value))
    for place in random.sample(every, 20):
        yield changed(tree, place, lambda node, key: node.pop(key))
        yield changed(tree, place, functools.partial(_put, value=random.choice(FORGED)))


def _put(node: Any, key: Any, value: Any) -> None:
    node[key] = value


@pytest.mark.long(keep=4)
@pytest.mark.parametrize(
    "manifest", [*FIXTURES.glob("0.2.0/*/manifest.json")], ids=lambda path: path.parent.name
)
def test_a_forged_tree_is_a_damaged_file_or_one_that_might_have_been_saved(
    manifest: Path, tmp_path: Path
) -> None:
    files, found = read_folder(manifest.parent), 0
    for card in forgeries(read(files["card.json"])):
        raw = {**files, "card.json": written(card)}
        folder = write_folder(tmp_path / "forged", raw, overwrite=True)
        try:
            pyro_gcm.load(folder)
        except (DamagedFile, MissingPart):
            found += 1
    assert found > 15
