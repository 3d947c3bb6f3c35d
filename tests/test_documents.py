"""What README, catalogue and documentation show runs; the site, its links and its paths."""

from __future__ import annotations

import io
import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch

from pyro_gcm import cli
from pyro_gcm.distributions import families
from pyro_gcm.inference.elbo import ELBOS
from pyro_gcm.models import GCM, IGCM
from pyro_gcm.models.build import GUIDES, KERNEL_GUIDES, PRIORS, REVENUE_MAPS
from pyro_gcm.responses import RESPONSES
from reproduce.__main__ import main as reproduce

ROOT = Path(__file__).parent.parent
DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "notebooks").glob("*.md")),
        *sorted((ROOT / "reproduce").glob("REPORT.md")),
        *sorted((ROOT / "reproduce" / "report").glob("*.md")),
    )
}
#: Pages with examples alone; those with commands of the shell run elsewhere.
EXAMPLES = [
    name
    for name, text in DOCUMENTS.items()
    if re.match("docs/(?!start|command_line)", name) and "```python" in text
]
README, CATALOGUE = DOCUMENTS["README.md"], DOCUMENTS["notebooks/catalogue.md"]


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty store and folder, and afterwards the cost families and random state of before."""
    monkeypatch.setattr(families, "_FAMILIES", dict(families._FAMILIES))
    monkeypatch.setattr(families, "_NAMES", dict(families._NAMES))
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng(), pyro.get_param_store().scope():
        yield


def run_examples(document: str, *, commands: bool = False) -> dict[str, Any]:
    """Run the examples of a page; what it shows in a block `text` after one has to be printed.

    :param commands: whether lines of shell blocks that begin with `pyro-gcm` run too.
    """
    namespace: dict[str, Any] = {}
    blocks = r"```(python|bash)\n(.*?)```(?:\s*```text\n(.*?)```)?"
    for language, example, shown in re.findall(blocks, DOCUMENTS[document], flags=re.DOTALL):
        printed = io.StringIO()
        with redirect_stdout(printed):
            if language == "python":
                exec(compile(example, document, "exec"), namespace)
            elif commands:
                for line in re.findall(r"^pyro-gcm (.*)", example, flags=re.MULTILINE):
                    assert cli.main([*shlex.split(line), "--quiet"]) == 0
        print(printed.getvalue(), end="")
        if shown:
            assert_alike(printed.getvalue(), shown)
    return namespace


def assert_alike(printed: str, shown: str) -> None:
    """The same words, and numbers that differ by what another machine may change."""
    number = r"-?\d+(?:\.\d*)?(?:e[+-]\d+)?"
    words = [re.sub(number, "#", re.sub(r"[\[\]]", " ", text)).split() for text in (printed, shown)]
    assert words[0] == words[1]  # NumPy pads a number that ends in a zero, in front of a bracket
    found, wanted = ([float(n) for n in re.findall(number, text)] for text in (printed, shown))
    assert found == pytest.approx(wanted, rel=0.1, abs=0.02)


@pytest.mark.long(keep=0)  # CI runs the README and all pages
def test_examples_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_examples("README.md")
    model, loaded = shown["model"], shown["loaded"]
    assert (model.surface(shown["x"][:4], shown["bids"]).diff(dim=1) >= 0).all()
    risk, test = shown["risk"], shown["test"]
    assert (loaded.predict_proba(test) == risk.predict_proba(test)).all()
    assert (shown["late"].mean() - risk.predict_proba(shown["X"])[:, 1].mean()) ** 2 < 0.03**2
    costs, y = shown["costs"], shown["y"][:4].bool()
    assert ((costs < shown["r"][:4]).all(-1) == y).all()
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    for block in blocks * 2:  # each by itself, and again beside what it wrote
        exec(compile(block, "README.md", "exec"), {})


def test_examples_of_the_catalogue_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_examples("notebooks/catalogue.md")
    assert shown["rows"]["x"].shape == (1000, 3)
    printed = capsys.readouterr().out
    assert "torch.Size([5, 9, 4])" in printed
    assert printed.count("log score -") == 2


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("document", EXAMPLES)
def test_examples_of_the_documentation_run(document: str) -> None:
    assert run_examples(document)


@pytest.mark.long(keep=0)
def test_examples_and_commands_of_the_start_page_run(tmp_path: Path) -> None:
    assert run_examples("docs/start.md", commands=True)
    for name in ("loans/card.json", "from_csv/card.json", "scores.csv"):
        assert (tmp_path / name).stat().st_size > 0


def test_every_name_is_in_the_catalogue() -> None:
    parts = [*PRIORS, *GUIDES, *KERNEL_GUIDES, *REVENUE_MAPS, *RESPONSES, *ELBOS]
    names = [*parts, *GCM.objectives, *IGCM.objectives, *families._NAMES]
    assert [name for name in names if f'"{name}"' not in CATALOGUE] == []


def test_every_link_leads_somewhere() -> None:
    for document, text in DOCUMENTS.items():
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
            path = (ROOT / document).parent / target if target else ROOT / document
            assert path.exists(), f"{document}: {target}"
            if anchor:
                titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
                words = [re.sub(r"[^\w\- ]", "", title.lower()) for title in titles]
                slugs = [each.replace(" ", "-") for each in words]
                assert anchor in slugs, f"{document}: {target}#{anchor}"


def test_every_page_is_on_exactly_one_path() -> None:
    """The four paths of the start page list the pages that their tables of contents have."""
    start = DOCUMENTS["docs/index.md"]
    lists = re.split("^## ", start, flags=re.MULTILINE)[1:]
    trees = re.findall(r":caption: (.*)\n(?::.*\n)*\n((?:\S+\n)+)```", start)
    assert [part.splitlines()[0] for part in lists] == [caption for caption, _ in trees]
    folder, seen = ROOT / "docs", []
    for part, (_, entries) in zip(lists, trees, strict=True):
        linked = {(folder / target).resolve() for target in re.findall(r"\]\(([^)]*)\)", part)}
        found = (folder.glob(f"{entry}.*") for entry in entries.split())
        in_tree = {path.resolve() for paths in found for path in paths}
        of_report = {path for path in in_tree if path.parent.name == "report"}
        assert linked == in_tree - of_report
        seen += in_tree
    assert len(seen) == len(set(seen))
    pages = [ROOT / name for name in DOCUMENTS if re.match("docs|notebooks|reproduce", name)]
    pages += (ROOT / "notebooks").glob("*.ipynb")
    assert {*pages} - {*seen} == {ROOT / "docs" / "index.md"}


def test_the_readme_starts_with_the_picture_and_the_two_commands() -> None:
    commands = re.findall(r"```bash\n(.*?)\n```", README, flags=re.DOTALL)
    setup = "python -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e "
    assert commands[0] == setup + '".[reproduce]" && python -m reproduce quantile'
    assert commands[1] == setup + '".[test]" && python -m pytest'
    lines = README.splitlines()
    picture = next(i for i, line in enumerate(lines, 1) if line.startswith("!["))
    assert picture < lines.index(commands[0]) + 1 < lines.index(commands[1]) + 1 <= 25
    assert len(README.split()) <= 800


def test_the_picture_of_the_readme_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["reproduce", "readme_figure", "--quick", "--output", "new"])
    reproduce()
    assert Path("new/response_curves.png").read_bytes().startswith(b"\x89PNG")
    committed = ROOT / "docs" / "images" / "response_curves.png"
    assert committed.stat().st_size < 150_000


PAPER = sorted((ROOT / "docs" / "paper").glob("*.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "reproduce" / "REPORT.md",
    *sorted((ROOT / "reproduce" / "report").glob("*.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
]


def test_every_lemma_and_claim_has_a_program() -> None:
    without = [page.stem for page in PAPER if "```python" not in page.read_text("utf-8")]
    assert without == ["summary"]  # of the library, with no claim of its own


def test_outputs_of_notebooks_are_of_no_machine() -> None:
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                text = "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
                assert output.get("name") != "stderr", f"{path}: {text}"
                assert not re.search(r"(?m)(?:^|[\s'\"])/(?:home|root|tmp|usr|work)/", text), path


def test_every_figure_has_alternative_text() -> None:
    for page in PAGES:
        for text in re.findall(r"!\[([^\]]*)\]", page.read_text("utf-8")):
            assert len(text.split()) >= 3, page
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
                alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
                assert len(alt.split()) >= 8, f"{path}: {''.join(cell['source'])}"


@pytest.mark.long(keep=0)  # imports every module
def test_the_reference_is_asked_for_all_public_names() -> None:
    asked = runpy.run_path(str(ROOT / ".ci" / "check_site.py"))["public"]()
    assert {"GCM", "fit", "estimators", "GCMClassifier", "Survival"} <= asked
