"""Reports read back: what they say, and that they need nothing else."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from pyro_gcm.report import WrittenReport, write_report

#: Elements that have no end.
VOID = {"meta", "img", "br", "link", "input"}
ALLOWED = {"html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "section"}
ALLOWED |= {"ul", "li", "nav", "a", "main", "p", "div", "dl", "dt", "dd", "figure", "img"}
ALLOWED |= {"table", "thead", "tbody", "tr", "th", "td", "figcaption"}


class Page(HTMLParser):
    """A report read back: its text, its elements, and whether they are nested well."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())
        self.pictures = [attributes for tag, attributes in self.elements if tag == "img"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> in line {self.getpos()[0]}"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def check(self) -> None:
        """That nothing comes from elsewhere, and that pictures and tables can be read by all."""
        assert {tag for tag, _ in self.elements} <= ALLOWED
        style = self.source[self.source.index("<style>") : self.source.index("</style>")]
        assert "url" not in style
        assert "import" not in style
        names = {attributes["id"] for _, attributes in self.elements if "id" in attributes}
        for _, attributes in self.elements:
            assert not any(name.startswith("on") for name in attributes)
            assert not attributes.keys() & {"srcset", "style", "action", "data", "poster"}
            if "href" in attributes:
                assert (attributes["href"] or "").removeprefix("#") in names
            assert (attributes.get("src") or "data:").startswith("data:")
        for picture in self.pictures:
            assert len(picture["alt"] or "") > 20
            head, _, code = (picture["src"] or "").partition("base64,")
            assert head == "data:image/svg+xml;"
            drawing = base64.b64decode(code).decode()
            assert "<script" not in drawing
            assert not re.search(r'href="(?!#|data:)', drawing)


def report(
    estimator: Any, X: Any, y: Any, path: Path, **options: Any
) -> tuple[WrittenReport, Page]:
    """A report with a short audit, and what it says."""
    written = write_report(estimator, X, y, path=path, pairs=30, progress=False, **options)
    return written, Page(path)
