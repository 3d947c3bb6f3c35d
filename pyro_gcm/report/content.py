"""The parts of a section of a report; the template defines their look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class Paragraph:
    """A few sentences.

    :param tone: "good" or "bad" for a verdict, "note" for an explanation.
    """

    text: str
    tone: str = ""
    kind: ClassVar[str] = "paragraph"


@dataclass(frozen=True)
class Fact:
    """A number that stands out, what it is, and what it says."""

    value: str
    name: str
    meaning: str


@dataclass(frozen=True)
class Facts:
    """Numbers side by side."""

    entries: Sequence[Fact]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Table:
    """Rows of texts below a title.

    :param numeric: positions of the columns that are aligned as numbers.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Figure:
    """A picture.

    :param source: the picture itself, as a data URI.
    :param alt: what it shows, for those who do not see it.
    """

    source: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Figures:
    """Pictures side by side where there is room."""

    entries: Sequence[Figure]
    kind: ClassVar[str] = "figures"


@dataclass(frozen=True)
class Heading:
    """The title of a part of a section."""

    text: str
    kind: ClassVar[str] = "heading"


Block = Paragraph | Facts | Table | Figures | Heading


@dataclass(frozen=True)
class Section:
    """A part of a report.

    :param name: of the place that links lead to.
    :param in_short: one sentence of it for the beginning of the report.
    """

    name: str
    title: str
    blocks: Sequence[Block] = field(repr=False)
    in_short: str = ""
