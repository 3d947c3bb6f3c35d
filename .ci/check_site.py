"""Checks a built site, without a network: python .ci/check_site.py docs/_build/html

Every link leads to a file and to an anchor in it, nothing is loaded from elsewhere, every image has
alternative text, every public name has an entry and every page a line in llms.txt. Links that leave
the site are listed, not followed.
"""

import importlib
import pkgutil
import re
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes from which a browser loads something as it shows a page.
LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}
#: <link>s that are addresses and not loaded.
ADDRESSES = ("canonical", "index", "next", "prev", "search", "author", "copyright")


class Page(HTMLParser):
    """The links, anchors and images of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.without_alt: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for every element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and (target := given.get(LOADED[tag])):
            loaded = given.get("rel") not in ADDRESSES
            (self.loaded if loaded else self.links).append(target)
        if tag == "img" and not given.get("alt", "").strip():
            self.without_alt.append(given.get("src", ""))


def faults(site: Path) -> tuple[list[str], int, set[str]]:
    """(what is wrong, the number of links that were followed, those that leave the site)."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong, followed, outside = [], 0, set()
    for path, page in pages.items():
        name = path.relative_to(site)
        wrong += [f"{name}: no alternative text: {image[:80]}" for image in page.without_alt]
        for target in page.links + page.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    wrong.append(f"{name}: loaded from elsewhere: {target}")
                outside.add(target)
                continue
            followed += 1
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if not there.is_file() or not there.is_relative_to(site):
                wrong.append(f"{name}: leads nowhere: {target}")
            elif (
                there in pages
                and parts.fragment
                and unquote(parts.fragment) not in (pages[there].anchors)
            ):
                wrong.append(f"{name}: no such anchor: {target}")
    for sheet in sorted(site.rglob("*.css")):
        distant = re.findall(
            r"(?:url\(|@import)\s*[\"']?(https?:[^\"')]+)", sheet.read_text("utf-8")
        )
        wrong += [f"{sheet.relative_to(site)}: loaded from elsewhere: {each}" for each in distant]
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    own = {"genindex.html", "search.html", "index.html"}
    for path in pages:
        name = path.relative_to(site).as_posix()
        if name not in own and f"({name})" not in listed:
            wrong.append(f"llms.txt: misses {name}")
    if "Search.setIndex" not in (site / "searchindex.js").read_text(encoding="utf-8"):
        wrong.append("searchindex.js: no index")
    return wrong, followed, outside


def public() -> set[str]:
    """The last parts of all names in the `__all__` of the package and its modules."""
    package = importlib.import_module("pyro_gcm")
    names = set(package.__all__)
    for info in pkgutil.walk_packages(package.__path__, "pyro_gcm."):
        if "._" not in info.name:
            names |= set(getattr(importlib.import_module(info.name), "__all__", ()))
    return names


def described(site: Path) -> set[str]:
    """The last parts of all names in the inventory of the site."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = zlib.decompress(inventory).decode().splitlines()
    return {entry.split(" ")[0].rpartition(".")[2] for entry in entries if " py:" in entry}


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    wrong, followed, outside = faults(site)
    wrong += [f"no entry in the reference: {name}" for name in sorted(public() - described(site))]
    for line in [*sorted(link for link in outside if not link.startswith("data:")), *wrong]:
        print(line)
    pages = len(list(site.rglob("*.html")))
    print(f"{pages} pages, {followed} links within the site, {len(wrong)} faults")
    sys.exit(bool(wrong))
