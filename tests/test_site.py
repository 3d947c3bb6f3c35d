"""What the documentation site is made of; CI builds it and checks every link of it."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAPER = sorted((ROOT / "docs" / "paper").glob("*.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "reproduce" / "REPORT.md",
    *sorted((ROOT / "reproduce" / "report").glob("*.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
]


def program(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_lemma_and_claim_has_a_program() -> None:
    without = [page.stem for page in PAPER if "```python" not in page.read_text("utf-8")]
    assert without == ["summary"]  # of the library, with no claim of its own


def test_every_figure_has_alternative_text() -> None:
    for page in PAGES:
        for text in re.findall(r"!\[([^\]]*)\]", page.read_text("utf-8")):
            assert len(text.split()) >= 3, page
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
                alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
                assert len(alt.split()) >= 8, f"{path}: {''.join(cell['source'])}"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A built site of one page, in which all is well."""
    (tmp_path / "a.html").write_text(
        '<a href="#here">x</a><a href="a.html#here">x</a><a href="https://example.org">x</a>'
        '<h1 id="here">x</h1><img src="a.png" alt="a curve"><script src="s.js"></script>',
        "utf-8",
    )
    for name in ("a.png", "s.js"):
        (tmp_path / name).touch()
    (tmp_path / "llms.txt").write_text("- [A](a.html): x", "utf-8")
    (tmp_path / "searchindex.js").write_text("Search.setIndex({})", "utf-8")
    return tmp_path


FAULTS = {
    "leads nowhere": '<a href="b.html">x</a>',
    "no such anchor": '<a href="a.html#there">x</a>',
    "no alternative text": '<img src="a.png" alt="">',
    "loaded from elsewhere": '<script src="https://example.org/s.js"></script>',
}


def test_a_fault_of_the_site_is_found(site: Path) -> None:
    faults = program(ROOT / ".ci" / "check_site.py").faults
    assert faults(site)[0] == []
    page = site / "a.html"
    whole = page.read_text("utf-8")
    for said, fault in FAULTS.items():
        page.write_text(whole + fault, "utf-8")
        (told,) = faults(site)[0]
        assert said in told
    page.write_text(whole, "utf-8")
    (site / "llms.txt").write_text("", "utf-8")
    assert faults(site)[0] == ["llms.txt: misses a.html"]


@pytest.mark.long(keep=0)  # imports every module
def test_the_reference_is_asked_for_all_public_names() -> None:
    asked = program(ROOT / ".ci" / "check_site.py").public()
    assert {"GCM", "fit", "estimators", "GCMClassifier", "Survival"} <= asked
