"""Cards in which anything is other than it was saved: one error, or what might have been saved."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fixture_folders import FIXTURES

import pyro_gcm
from pyro_gcm.io import DamagedFile, MissingPart
from pyro_gcm.io import folder as folders
from pyro_gcm.io.folder import read_folder
from pyro_gcm.io.plain_data import read, written

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
        folder = folders.write_folder(tmp_path / "forged", raw, overwrite=True)
        try:
            pyro_gcm.load(folder)
        except (DamagedFile, MissingPart):
            found += 1
    assert found > 15
