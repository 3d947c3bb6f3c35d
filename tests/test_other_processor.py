"""The option that makes torch round as another processor finds lucky numbers.

That promises to the bit hold there, all other tests show, which CI runs with this option too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

#: A loss after many steps, compared with what it was on this processor, and what holds on all.
PLANTED = """
from pathlib import Path

import pytest
import torch


def last_loss(w=torch.full((5,), -0.5)):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 5, generator=g)
    for _ in range(300):
        w = w + 0.01 * x.T @ ((x.sum(1) > 0).float() - torch.sigmoid(x @ w))
    return torch.nn.functional.softplus(-(x @ w) * x.sum(1).sign()).mean().item()


def test_lucky():
    assert last_loss() == pytest.approx(float(Path("loss").read_text()), abs=1e-9)


def test_the_loss_falls():
    assert last_loss() < 0.35
"""


@pytest.mark.long(keep=["2"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_lucky_number_is_found_and_what_holds_everywhere_passes(
    number: int, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    if pytestconfig.getoption("--as-on-another-processor"):
        pytest.skip("this processor is another one itself")
    here: dict[str, Any] = {}
    exec(PLANTED, here)
    (tmp_path / "loss").write_text(repr(here["last_loss"]()))
    (tmp_path / "test_planted.py").write_text(PLANTED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "other_processor", "-c", os.devnull]
    command += ["--rootdir=.", "test_planted.py", f"--as-on-another-processor={number}"]
    variables = {
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    out = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | variables
    ).stdout
    assert "FAILED test_planted.py::test_lucky" in out, out
    assert "1 failed, 1 passed" in out, out
