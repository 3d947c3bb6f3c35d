"""Forged folders, whose digests fit: one error, or what might have been saved."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from saved_estimators import fitted

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm.io import DamagedFile, MissingPart, read_card, signed


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / "saved")


def refused(folder: Path, wanted: str, reads: Callable[[Path], Any] = pyro_gcm.load) -> None:
    with pytest.raises(DamagedFile, match=wanted) as caught:
        reads(folder)
    assert len(str(caught.value).splitlines()) == 1


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def forge(folder: Path, card: Any, weights: bytes | None = None) -> None:
    """Write a card with a digest that fits, and other weights."""
    if weights is not None:
        card = {**card, "weights": digest(weights)}
        (folder / f"weights-{card['weights'][:16]}.safetensors").write_bytes(weights)
    (folder / "card.json").write_bytes(signed(card))


def test_weights_that_are_a_pickle_are_refused(saved: Path) -> None:
    forge(saved, read_card(saved), b"cos\nabort\n(tR.")
    refused(saved, "weights-.* Error while deserializing")


CARDS_AS_BYTES = {
    "list": (b"[]\n", ""),
    "NaN": (b'{\n "format": NaN\n}\n', "not JSON compliant"),
    "duplicate keys": (b'{\n "format": 1,\n "format": 1\n}\n', "was changed"),
    "other layout": (b'{"format": 1}', "was changed"),
    "deep": (b"[" * 100_000, "recursion"),
    "without a digest": (b'{\n "format": 1\n}\n', "was changed"),
}


@pytest.mark.parametrize(("raw", "wanted"), CARDS_AS_BYTES.values(), ids=CARDS_AS_BYTES)
def test_a_card_that_was_not_saved_is_refused(raw: bytes, wanted: str, saved: Path) -> None:
    (saved / "card.json").write_bytes(raw)
    refused(saved, f"card\\.json .*{wanted}")


def gcm(**arguments: Any) -> dict[str, Any]:
    return {"type": "models.GCM", "arguments": {"x_dim": 2, "r_dim": 1, **arguments}}


ARCHITECTURES: dict[str, tuple[Any, str]] = {
    "unknown class": ({"type": "os.system", "arguments": {}}, "no class is registered as"),
    "unknown argument": (gcm(code="1"), "GCM has no argument 'code'"),
    "other sizes": (gcm(x_dim=3), r"size mismatch for .*shape torch.Size\(\[16, 2\]\)"),
    "more tensors": (gcm(prior="mixture"), "does not fit the weights: KeyError '.*'"),
    "nothing": (
        {"type": "nets.Identity", "arguments": {}, "frozen": []},
        "tensor .* belongs to nothing",
    ),
    "unknown keys": (gcm(prior={"import": "os"}), "unknown keys"),
    "data of a module": ({"type": "models.GCM", "data": {}, "parts": {}}, "saved_state"),
}
#: What a forged card has, and what is said by whoever reads it.
CARDS: dict[str, tuple[dict[str, Any], str]] = {
    "format": ({"format": 2}, "has format 2, and this version reads 1"),
    **{
        name: ({"architecture": made, "class": made["type"]}, wanted)
        for name, (made, wanted) in ARCHITECTURES.items()
    },
}


@pytest.mark.parametrize("kind", CARDS)
def test_a_forged_card_is_refused(kind: str, saved: Path) -> None:
    changed, wanted = CARDS[kind]
    forge(saved, {**read_card(saved), **changed})
    refused(saved, rf"card\.json.*{wanted}")


@pytest.mark.parametrize("name", ["torch", "__builtins__"])
def test_a_name_that_is_no_distribution_is_refused(name: str, saved: Path) -> None:
    node = gcm(cost_family={"distribution": name})
    forge(saved, {**read_card(saved), "architecture": node})
    with pytest.raises(MissingPart, match=f"cost_family='{name}' is unknown"):
        pyro_gcm.load(saved)


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


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("kind", ["model", "GCMClassifier", "GCMSurvival", "IGCMRegressor"])
def test_a_forged_tree_is_a_damaged_file_or_one_that_might_have_been_saved(
    kind: str, tmp_path: Path
) -> None:
    folder = pyro_gcm.save(GCM(2, 1) if kind == "model" else fitted(kind), tmp_path / "saved")
    card, found = read_card(folder), 0
    for tree in forgeries(card["architecture"]):
        forge(folder, {**card, "architecture": tree})
        try:
            pyro_gcm.load(folder)
        except (DamagedFile, MissingPart):
            found += 1
    assert found > 15
