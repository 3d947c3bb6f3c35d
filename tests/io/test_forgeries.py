"""Cards in which anything is other than it was saved: one error, or what might have been saved."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fixture_folders import FIXTURES

import pyro_gcm
from pyro_gcm.files import folder as folders
from pyro_gcm.files import strict_json
from pyro_gcm.files.folder_reading import read_folder
from pyro_gcm.io import DamagedFile, MissingPart

#: What stands in the place of a value of a forged card.
FORGED: list[Any] = [None, True, -1, 10**30, "text", [], {}, [[]], {"tensor": "x"}, {"same_as": ""}]


def places(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a tree are."""
    yield place
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield from places(node[key], (*place, key))


def forgery(tree: Any, random: Random) -> Any:
    """A tree in which one value is another one, has another key, or is gone."""
    tree = copy.deepcopy(tree)
    *above, key = random.choice([*places(tree)][1:])
    node = functools.reduce(lambda inner, name: inner[name], above, tree)
    old, new = node.pop(key), random.choice(FORGED)
    if isinstance(node, list):
        node.insert(key, new)
    elif random.random() < 0.6:
        node[random.choice([key, "other"])] = random.choice([old, new])
    return tree


@pytest.mark.parametrize(
    "manifest", [*FIXTURES.glob("0.2.0/*/manifest.json")], ids=lambda path: path.parent.name
)
def test_a_forged_tree_is_a_damaged_file_or_one_that_might_have_been_saved(
    manifest: Path, tmp_path: Path
) -> None:
    files, random, found = read_folder(manifest.parent), Random(0), 0
    for _ in range(20):
        card = forgery(strict_json.read(files["card.json"]), random)
        raw = {**files, "card.json": strict_json.written(card)}
        folder = folders.write_folder(tmp_path / "forged", raw, overwrite=True)
        try:
            pyro_gcm.load(folder)
        except MissingPart:
            continue
        except DamagedFile:
            found += 1
    assert found > 2
