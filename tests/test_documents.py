"""What the README and the catalogue show runs as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch

from pyro_gcm.distributions import families
from pyro_gcm.inference.fit import ELBOS
from pyro_gcm.models import GCM, IGCM
from pyro_gcm.models.parts import GUIDES, KERNEL_GUIDES, PRIORS, REVENUE_MAPS
from pyro_gcm.models.responses import RESPONSES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CATALOGUE = (ROOT / "notebooks" / "catalogue.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same numbers at every run, an empty store, and the families that there were."""
    monkeypatch.setattr(families, "_FAMILIES", dict(families._FAMILIES))
    monkeypatch.setattr(families, "_NAMES", dict(families._NAMES))
    with torch.random.fork_rng(), pyro.get_param_store().scope():
        yield


def run_examples(text: str, name: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(example, name, "exec"), namespace)
    return namespace


def test_examples_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_examples(README, "README.md")
    surface = shown["model"].surface(shown["x"][:4], shown["bids"])
    assert (surface.diff(dim=1) >= 0).all()
    assert "[100, 4, 2]" in capsys.readouterr().out


def test_examples_of_the_catalogue_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_examples(CATALOGUE, "catalogue.md")
    assert shown["rows"]["x"].shape == (1000, 3)
    printed = capsys.readouterr().out
    assert "torch.Size([5, 9, 4])" in printed
    assert re.search(r"strict -\d\.\d+, implicit -\d\.\d+, difference [+-]\d\.\d+ ± ", printed)


@pytest.mark.parametrize(
    "name",
    [
        *PRIORS,
        *GUIDES,
        *KERNEL_GUIDES,
        *REVENUE_MAPS,
        *RESPONSES,
        *ELBOS,
        *GCM.objectives,
        *IGCM.objectives,
        *families._NAMES,
    ],
)
def test_every_name_is_in_the_catalogue(name: str) -> None:
    assert f'"{name}"' in CATALOGUE


def test_the_first_lines_are_the_two_commands() -> None:
    commands = re.findall(r"```bash\n(.*?)\n```", README, flags=re.DOTALL)
    setup = "python -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e "
    assert commands[0] == setup + '".[reproduce]" && python -m reproduce quantile'
    assert commands[1] == setup + '".[test]" && python -m pytest'
