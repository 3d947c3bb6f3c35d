"""Links of a file that another page includes, seen from that page."""

import posixpath
import re
from pathlib import Path
from typing import Any


def rewrite(app: Any, path: Path, _: str, content: list[str]) -> None:
    """Called by Sphinx with the path of the included file, relative to the sources."""
    page, file = posixpath.dirname(app.env.docname), posixpath.dirname(path.as_posix())

    def seen_from_the_page(match: re.Match[str]) -> str:
        return f"]({posixpath.relpath(posixpath.join(file, match[1]), page or '.')}"

    content[0] = re.sub(r"\]\((?!https?:|#)([^)#\s]+)", seen_from_the_page, content[0])


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("include-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
