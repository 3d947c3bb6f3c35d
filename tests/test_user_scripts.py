"""Scripts as users write them run; CI finds them strictly typed, with `mypy --strict`."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "user_scripts").glob("*.py"))


@pytest.mark.long(keep=0)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_of_a_user_runs(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
