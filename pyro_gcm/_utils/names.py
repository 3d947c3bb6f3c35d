"""Names of columns, which are the same text in any normal form of Unicode."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import normalize


def known_name(name: str, known: Sequence[str]) -> str:
    """The one of some names that is the same text, in whatever normal form of Unicode it came."""
    if name.isascii() or name in known:
        return name
    form = normalize("NFC", name)
    return next((each for each in known if normalize("NFC", each) == form), name)
