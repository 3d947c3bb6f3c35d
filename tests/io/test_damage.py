"""Files that are damaged or cut are refused, and nothing in them is executed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from saved_estimators import fitted

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm.io import DamagedFile, read_card

#: What Python announces when something is executed, imported or unpickled.
EXECUTED = ("exec", "import", "pickle.find_class", "os.system", "subprocess.Popen", "marshal.loads")
#: A pickle that ends the process.
ABORT = b"cos\nabort\n(tR."
_watching: list[list[str]] = []


def _watch(event: str, arguments: Any) -> None:
    if _watching and event in EXECUTED:
        _watching[-1].append(f"{event} {arguments}")


@pytest.fixture(scope="module")
def executed() -> Iterator[list[str]]:
    """What is executed from now on."""
    sys.addaudithook(_watch)
    _watching.append([])
    yield _watching[-1]
    _watching.clear()


def flipped(raw: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(raw))
    return raw[:place] + bytes([raw[place] ^ 1 << chance.randrange(8)]) + raw[place + 1 :]


def cut(raw: bytes, chance: random.Random) -> bytes:
    return raw[: chance.randrange(len(raw))]


def refused(folder: Path, name: str, reads: Callable[[Path], Any] = pyro_gcm.load) -> None:
    with pytest.raises(DamagedFile, match=name.replace(".", r"\.")) as caught:
        reads(folder)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("damage", [flipped, cut])
@pytest.mark.parametrize("kind", ["model", "GCMClassifier, bootstrap"])
def test_no_damage_is_silent(
    kind: str,
    damage: Callable[[bytes, random.Random], bytes],
    tmp_path: Path,
    executed: list[str],
) -> None:
    folder = pyro_gcm.save(GCM(2, 1) if kind == "model" else fitted(kind), tmp_path / "saved")
    pyro_gcm.load(folder)  # which imports what it needs
    executed.clear()
    chance = random.Random(0)
    for path in sorted(folder.iterdir()):
        original = path.read_bytes()
        for _ in range(150):
            path.write_bytes(damage(original, chance))
            refused(folder, path.name)
        for other in (original + b"\n", b"", ABORT):
            path.write_bytes(other)
            refused(folder, path.name)
        path.unlink()
        refused(folder, path.name)
        path.write_bytes(original)
    assert not executed


def test_a_damaged_card_is_not_shown(tmp_path: Path) -> None:
    folder = pyro_gcm.save(GCM(2, 1), tmp_path / "saved")
    (folder / "card.json").write_bytes((folder / "card.json").read_bytes().replace(b"GCM", b"GCN"))
    refused(folder, "card.json was changed", read_card)
