"""A byte that flips, or a file that is cut: none of them is silent, and nothing is executed."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_folders import FIXTURES

import pyro_gcm
from pyro_gcm.io import DamagedFolder

#: Of models and of estimators.
FOLDERS = sorted(path.parent for path in FIXTURES.glob("*/*/manifest.json"))
#: Damages of one case; there are 20 cases.
DAMAGES = 500
#: What Python announces when something is executed, imported or unpickled.
EXECUTED = ("exec", "import", "pickle.find_class", "os.system", "subprocess.Popen", "marshal.loads")
_watching: list[list[str]] = []


def _watch(event: str, arguments: Any) -> None:
    if _watching and event in EXECUTED:
        _watching[-1].append(f"{event} {arguments}")


@pytest.fixture
def executed() -> Iterator[list[str]]:
    """What is executed from now on."""
    if not getattr(sys, "_pyro_gcm_watches", False):
        sys.addaudithook(_watch)
        sys._pyro_gcm_watches = True  # type: ignore[attr-defined]
    _watching.append([])
    yield _watching[-1]
    _watching.pop()


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("case", range(20))
def test_no_flipped_or_missing_byte_is_silent(
    case: int, tmp_path: Path, executed: list[str]
) -> None:
    source = FOLDERS[case % len(FOLDERS)]
    folder = Path(shutil.copytree(source, tmp_path / "saved"))
    pyro_gcm.load(folder)  # which imports what it needs
    executed.clear()
    originals = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    draw = random.Random(case)
    for number in range(DAMAGES):
        path = draw.choice(list(originals))
        raw = bytearray(originals[path])
        place = draw.randrange(len(raw))
        if number % 4 == 0:
            del raw[place:]
        elif number % 4 == 1:
            raw[place] = (raw[place] + draw.randrange(1, 256)) % 256
        else:
            raw[place] ^= 1 << draw.randrange(8)
        path.write_bytes(raw)
        try:
            with pytest.raises(DamagedFolder, match=path.name.replace(".", r"\.")) as caught:
                pyro_gcm.load(folder)
        finally:
            path.write_bytes(originals[path])
        assert len(str(caught.value).splitlines()) == 1
    assert not executed
    pyro_gcm.load(folder)
