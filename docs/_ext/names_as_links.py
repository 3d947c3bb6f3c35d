"""Code that is a public name, in pages and docstrings, becomes a link to the reference."""

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform


def targets(names: dict[str, tuple[str, Any]]) -> dict[str, str]:
    """The page of each way to write a name: its paths, and its last part where that is telling."""
    found: dict[str, set[str]] = {}
    for path, (page, _) in names.items():
        spellings = {path, path.removeprefix("pyro_gcm."), path.rpartition(".")[2]}
        spellings = {name for name in spellings if re.search("[.A-Z_]", name)}  # `fit` is a method
        for spelling in spellings:
            found.setdefault(spelling, set()).add(page)
    return {spelling: pages.pop() for spelling, pages in found.items() if len(pages) == 1}


class NamesAsLinks(SphinxTransform):
    """Puts a link around them, but in titles, other links and on the page of the name itself."""

    default_priority = 800

    def apply(self, **_: Any) -> None:
        """Called by Sphinx for each page."""
        known = targets(self.app.reference_names)
        for node in list(self.document.findall(nodes.literal)):
            page = known.get(node.astext().removesuffix("()"))
            here = f"docs/reference/names/{page}" == self.env.docname
            if page is None or here or _inside(node):
                continue
            link = addnodes.pending_xref(
                "",
                node.deepcopy(),
                refdomain="py",
                reftype="obj",
                reftarget=page,
                refdoc=self.env.docname,
                refexplicit=True,
                refwarn=True,
            )
            node.replace_self(link)


def _inside(node: Any) -> bool:
    while node := node.parent:
        if isinstance(
            node, (nodes.title, nodes.reference, addnodes.pending_xref, addnodes.desc_signature)
        ):
            return True
    return False


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(NamesAsLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
