"""Lists that are written as one text: commas between the parts, quotes around a part with one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Sequence

_PART = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?:,|$)|([^,]*)(?:,|$)')


def parts_of(text: str | Sequence[str], known: Collection[str] = ()) -> list[str]:
    """The parts of a list, such as `a, b,"c, d"`; a text that is known stands alone.

    :param text: the list, or several whose parts are put together.
    :param known: parts that are taken with the blanks around them, which others lose.
    """
    if not isinstance(text, str):
        return [part for each in text for part in parts_of(each, known)]
    if text in known:
        return [text]
    found = []
    for quoted, plain in _PART.findall(text):
        if quoted or plain.strip():
            part = quoted.replace('""', '"') or plain
            found.append(part if quoted or part in known else part.strip())
    return found


def list_of(parts: Iterable[str]) -> str:
    """The list that `parts_of` takes apart."""
    return ",".join(
        part
        if part == part.strip() != "" and "," not in part and not part.startswith('"')
        else '"' + part.replace('"', '""') + '"'
        for part in parts
    )


def as_argument(*parts: str) -> str:
    """The list as the one argument that a shell takes it for."""
    return shlex.quote(list_of(parts))
