"""The parts of a page, figures inside it, and the page itself: one HTML file."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

#: Inches; as wide as a phone shows without making letters smaller.
_SIZE = (4.6, 3.3)
_STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.5,
    "grid.color": "0.92",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": "small",
    "svg.fonttype": "path",  # the same letters everywhere
    "svg.hashsalt": "pyro-gcm",  # the same bytes every time
    "text.parse_math": False,  # names of columns are no formulas
}


class Paragraph(NamedTuple):
    """A few sentences.

    :param tone: "good" or "bad" for a verdict, "note" for an explanation.
    """

    text: str
    tone: str = ""


class Fact(NamedTuple):
    """A number that stands out, what it is, and what it says."""

    value: str
    name: str
    meaning: str


class Facts(NamedTuple):
    """Numbers side by side."""

    entries: Sequence[Fact]


class Table(NamedTuple):
    """Rows of texts below a title.

    :param numeric: positions of the columns that are aligned as numbers.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()


class Figure(NamedTuple):
    """A picture.

    :param source: the picture itself, as a data URI.
    :param alt: what it shows, for those who do not see it.
    """

    source: str
    alt: str
    caption: str


class Figures(NamedTuple):
    """Pictures side by side where there is room."""

    entries: Sequence[Figure]


#: A part of a section; the template has a look for each.
Block = Paragraph | Facts | Table | Figures


class Section(NamedTuple):
    """The answer to one question of the reader.

    :param name: of the place that links lead to.
    :param in_short: the answer in a sentence, for the beginning of the report.
    """

    name: str
    title: str
    blocks: Sequence[Block]
    in_short: str = ""


def drawn(draw: Callable[[Any], object], alt: str, caption: str) -> Figure:
    """A figure with one pair of axes, the same whatever the user's settings of matplotlib are.

    :param draw: a function of the axes.
    """
    import matplotlib.style
    from matplotlib.figure import Figure as Drawing

    image, nothing = io.BytesIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        # The page has every name in letters of the reader's own fonts too.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = Drawing(figsize=_SIZE, layout="constrained")
        draw(figure.subplots())
        figure.savefig(image, format="svg", metadata=nothing)
    source = "data:image/svg+xml;base64," + base64.b64encode(image.getvalue()).decode()
    return Figure(source, alt, caption)


def page(title: str, sections: Sequence[Section]) -> str:
    """One HTML page, in which every text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pyro_gcm.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html").render(title=title, sections=sections)
