"""A small table, quick models of each kind, and reports read back as HTML."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import loans
import pandas as pd

from pyro_gcm import estimators
from pyro_gcm.report import WrittenReport, write_report

#: Elements that have no end.
VOID = {"meta", "img", "br", "link", "input"}
DIRECTIONS = {"debt": 1, "income": -1}


def table(kind: str) -> tuple[pd.DataFrame, Any]:
    """Columns with missing values, and what came, for a kind of model."""
    rows = loans.table()
    X = rows[["income", "debt", "job"]].assign(debt=rows["debt"].round(-1))  # quick curves
    outcomes = {
        "classifier": rows["default"].to_numpy(),
        "ordinal": rows["grade"].map({"low": 0, "medium": 1, "high": 2}).to_numpy(),
        "survival": (rows["event"].to_numpy() == 1, rows["time"].to_numpy()),
    }
    return X, outcomes.get(kind, rows["loss"])


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "classifier": (estimators.GCMClassifier, {}),
    "ordinal": (estimators.GCMOrdinal, {}),
    "survival": (estimators.GCMSurvival, {}),
    "regressor": (estimators.GCMRegressor, {"response": "continuous"}),
    "distribution": (estimators.GCMRegressor, {"response": "distribution"}),
}


def fitted(kind: str, X: pd.DataFrame, y: Any, directions: dict[str, int] = DIRECTIONS) -> Any:
    """A model of a kind that is trained for one epoch."""
    model, options = MODELS[kind]
    return model(monotonic_cst=directions, members=2, epochs=1, **options).fit(X, y)


class Page(HTMLParser):
    """A report read back: its text, its elements, and whether they are nested well."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> in line {self.getpos()[0]}"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join(" ".join(self.words).split())

    @property
    def pictures(self) -> list[dict[str, str | None]]:
        """Attributes of all pictures."""
        return [attributes for tag, attributes in self.elements if tag == "img"]

    def check(self) -> None:
        """That nothing comes from elsewhere, and that pictures and tables can be read by all."""
        allowed = {"html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3"}
        allowed |= {"section", "ul", "li", "nav", "a", "main", "p", "div", "dl", "dt", "dd"}
        allowed |= {"table", "thead", "tbody", "tr", "th", "td"}
        allowed |= {"figure", "img", "figcaption"}
        assert {tag for tag, _ in self.elements} <= allowed
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
