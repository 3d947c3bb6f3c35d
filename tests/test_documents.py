"""What the README, the catalogue and the documentation show runs, and what they link to exists."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch

from pyro_gcm.distributions import families
from pyro_gcm.inference.training_pair import ELBOS
from pyro_gcm.models import GCM, IGCM
from pyro_gcm.models.build import GUIDES, KERNEL_GUIDES, PRIORS, REVENUE_MAPS
from pyro_gcm.models.known_responses import RESPONSES
from reproduce import readme_figure

ROOT = Path(__file__).parent.parent
DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "notebooks").glob("*.md")),
    )
}
README, CATALOGUE = DOCUMENTS["README.md"], DOCUMENTS["notebooks/catalogue.md"]


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty store and folder, and afterwards the cost families and random state of before."""
    monkeypatch.setattr(families, "_FAMILIES", dict(families._FAMILIES))
    monkeypatch.setattr(families, "_NAMES", dict(families._NAMES))
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng(), pyro.get_param_store().scope():
        yield


def run_examples(document: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", DOCUMENTS[document], flags=re.DOTALL):
        exec(compile(example, document, "exec"), namespace)
    return namespace


def test_examples_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_examples("README.md")
    model, loaded = shown["model"], shown["loaded"]
    assert (model.surface(shown["x"][:4], shown["bids"]).diff(dim=1) >= 0).all()
    risk, test = shown["risk"], shown["test"]
    assert (loaded.predict_proba(test) == risk.predict_proba(test)).all()
    assert (shown["late"].mean() - risk.predict_proba(shown["X"])[:, 1].mean()) ** 2 < 0.03**2
    assert "[100, 4, 2]" in capsys.readouterr().out


def test_examples_of_the_catalogue_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_examples("notebooks/catalogue.md")
    assert shown["rows"]["x"].shape == (1000, 3)
    printed = capsys.readouterr().out
    assert "torch.Size([5, 9, 4])" in printed
    assert re.search(r"strict -\d\.\d+, implicit -\d\.\d+, difference [+-]\d\.\d+ ± ", printed)


@pytest.mark.long(keep=2)
@pytest.mark.parametrize(
    "document",
    [name for name, text in DOCUMENTS.items() if name.startswith("docs/") and "```python" in text],
)
def test_examples_of_the_documentation_run(document: str) -> None:
    assert run_examples(document)


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


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    folder, text = (ROOT / document).parent, DOCUMENTS[document]
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
        path = folder / target if target else ROOT / document
        assert path.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in slugs, f"{target}#{anchor}"


def test_the_readme_starts_with_the_picture_and_the_two_commands() -> None:
    commands = re.findall(r"```bash\n(.*?)\n```", README, flags=re.DOTALL)
    setup = "python -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e "
    assert commands[0] == setup + '".[reproduce]" && python -m reproduce quantile'
    assert commands[1] == setup + '".[test]" && python -m pytest'
    lines = README.splitlines()
    picture = next(i for i, line in enumerate(lines, 1) if line.startswith("!["))
    assert picture < lines.index(commands[0]) + 1 < lines.index(commands[1]) + 1 <= 25


def test_the_readme_can_be_read_in_minutes() -> None:
    assert len(README.split()) <= 900


def test_the_picture_of_the_readme_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["readme_figure", "--quick", "--output", "new/curves.png"])
    readme_figure.main()
    assert Path("new/curves.png").read_bytes().startswith(b"\x89PNG")
    committed = ROOT / "docs" / "images" / "response_curves.png"
    assert committed.stat().st_size < 150_000
