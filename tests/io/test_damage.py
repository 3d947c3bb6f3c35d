"""Files that are damaged, missing or added: none of them is silent, and nothing is executed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_folders import FOLDERS

import pyro_gcm
from pyro_gcm.io import DamagedFolder

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


def damages(raw: bytes) -> Iterator[bytes]:
    """A bit that flips at the start, in the middle and at the end; a byte less or more; nothing."""
    for place in (0, len(raw) // 2, len(raw) - 9):
        yield raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
    yield from (raw[:-1], raw + b"\n", b"")


# One reader for all kinds: a model and an estimator of each version, and members.
KEPT = ("0.1.0 classifier", "0.1.0 gcm", "0.2.0 classifier", "0.2.0 gcm", "0.2.0 members")


@pytest.mark.long(keep=KEPT)
@pytest.mark.parametrize("source", FOLDERS, ids=lambda path: f"{path.parent.name} {path.name}")
def test_no_damaged_or_added_file_is_silent(
    source: Path, tmp_path: Path, executed: list[str]
) -> None:
    folder = Path(shutil.copytree(source, tmp_path / "saved"))
    pyro_gcm.load(folder)  # which imports what it needs
    executed.clear()

    def check(name: str) -> None:
        with pytest.raises(DamagedFolder, match=name.replace(".", r"\.")) as caught:
            pyro_gcm.load(folder)
        assert len(str(caught.value).splitlines()) == 1

    for path in sorted(folder.iterdir()):
        original = path.read_bytes()
        for damaged in damages(original):
            path.write_bytes(damaged)
            check(path.name)
        path.rename(tmp_path / "elsewhere")
        check(path.name)
        path.symlink_to(tmp_path / "elsewhere")
        check(path.name)
        path.unlink()
        path.write_bytes(original)
    for name in ("extra.pkl", "weights.pt", ".hidden", "card.json.bak"):
        (folder / name).write_bytes(ABORT)
        check(f"{name} is not in the manifest")
        (folder / name).unlink()
    (folder / "folder").mkdir()
    check("folder is not in the manifest")
    assert not executed
