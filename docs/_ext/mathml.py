"""Formulas as MathML, which browsers draw themselves, with a font that the site brings."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import ziamath
from docutils import nodes
from latex2mathml.converter import convert

SPACE = "http://www.w3.org/1998/Math/MathML"
ET.register_namespace("", SPACE)
WITH_LIMITS = ("max", "min", "lim", "sup", "inf")


def formula(latex: str, display: str) -> str:
    """MathML with the spaces and limits that TeX would set."""
    math = ET.fromstring(convert(latex, display=display))
    for parent in math.iter():
        before = None
        for child in parent:
            _mend(child, before)
            before = child
        first = parent[0].text if len(parent) else None
        if display == "block" and parent.tag == f"{{{SPACE}}}msub" and first in WITH_LIMITS:
            parent.tag = f"{{{SPACE}}}munder"
    return ET.tostring(math, encoding="unicode")


def _mend(element: ET.Element, before: ET.Element | None) -> None:
    """Make an operator what it is: a name, an infinity, a sign in front of a number."""
    text = element.text or ""
    if text in (*WITH_LIMITS, "log"):
        element.tag = f"{{{SPACE}}}mo"
        element.attrib.update(lspace="0.167em", rspace="0.167em")
    elif text == "Pr" or text == "∞":
        element.tag, element.attrib = f"{{{SPACE}}}mi", {}
    elif text == "⟺":
        element.tag = f"{{{SPACE}}}mo"
        element.attrib.update(lspace="0.278em", rspace="0.278em")
    elif text == "−":
        after_value = before is not None and (
            (before.text or "") in (")", "|") or not before.tag.endswith(("mo", "mspace"))
        )
        if not after_value:
            element.set("form", "prefix")


def inline(self: Any, node: nodes.Element) -> None:
    """A formula within a line."""
    self.body.append(formula(node.astext(), "inline"))
    raise nodes.SkipNode


def block(self: Any, node: nodes.Element) -> None:
    """A formula on lines of its own, which scrolls where it is too wide."""
    self.body.append(f'<div class="math">{formula(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    app.config.html_static_path.append(str(Path(ziamath.__file__).parent / "fonts"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
