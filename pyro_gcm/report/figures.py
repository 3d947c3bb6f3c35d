"""Figures of matplotlib as pictures inside the document."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyro_gcm.report.content import Figure

#: Colours that the colour-blind can tell apart (Okabe and Ito).
BLUE, ORANGE = "#0072B2", "#D55E00"
GREY = "0.45"
#: Inches; as wide as a phone shows without making letters smaller.
_SIZE = (4.6, 3.3)
_STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.5,
    "grid.color": "0.92",
    "axes.axisbelow": True,
    "svg.fonttype": "path",  # the same letters everywhere
    "svg.hashsalt": "pyro-gcm",  # the same bytes every time
    "text.parse_math": False,  # names of columns are no formulas
}


@contextmanager
def own_style() -> Iterator[None]:
    """Inside, figures look the same whatever the user's settings are."""
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        # The page has every name in letters of the reader's own fonts too.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


def drawn(draw: Callable[[Any], object], alt: str, caption: str) -> Figure:
    """A figure with one pair of axes.

    :param draw: a function of the axes.
    """
    from matplotlib.figure import Figure as Drawing

    with own_style():
        figure = Drawing(figsize=_SIZE, layout="constrained")
        draw(figure.subplots())
        return Figure(as_uri(figure), alt, caption)


def as_uri(figure: Any) -> str:
    """A figure as an SVG picture in a data URI, without a date or a name of a program."""
    image = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(image, format="svg", metadata=nothing)
    return "data:image/svg+xml;base64," + base64.b64encode(image.getvalue()).decode()
