"""Sections of a report as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from pyro_gcm.report.content import Section


def page(title: str, sections: Sequence[Section]) -> str:
    """The page, in which every text is escaped."""
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
