"""`llms.txt`, the list of all pages with a sentence each, for programs that read sites."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes


def sentence(doctree: nodes.document) -> str:
    """The first sentence of the first paragraph that is one."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if isinstance(paragraph.parent, (nodes.entry, nodes.list_item)):
            continue
        if len(text.split()) > 3 and ": from pyro_gcm" not in text:
            return re.split(r"(?<=[.:])\s(?=[A-Z])", text)[0]
    return ""


def write(app: Any, exception: Exception | None) -> None:
    """After the pages: those of the table of contents in its order, then those of the names."""
    if exception is not None or app.builder.format != "html":
        return
    env = app.env
    root = env.get_doctree(app.config.root_doc)
    lines = [f"# {app.config.project}", "", f"> {sentence(root)}"]
    lines += ["", "## Front page", "", _line(app, app.config.root_doc)]
    listed = {app.config.root_doc}
    for tree in root.findall(addnodes.toctree):
        lines += ["", f"## {tree['caption']}", ""]
        for name in _within(env, tree["includefiles"]):
            listed.add(name)
            lines.append(_line(app, name))
    lines += ["", "## Public names", ""]
    lines += [_line(app, name) for name in sorted(env.found_docs - listed)]
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _within(env: Any, names: list[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield from _within(env, env.toctree_includes.get(name, []))


def _line(app: Any, name: str) -> str:
    title, about = app.env.titles[name].astext(), sentence(app.env.get_doctree(name))
    return f"- [{title}]({app.builder.get_target_uri(name)}): {about}".removesuffix(": ")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
