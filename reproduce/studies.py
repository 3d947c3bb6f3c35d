"""The studies of the report: `python -m reproduce NAME` runs one, and `list` shows them all."""

from __future__ import annotations

from typing import Any

from reproduce import public, quantile, timing
from reproduce.ablations import auctions, latent_sizes, members, stories
from reproduce.checks import credit_falls, falls, primitives
from reproduce.curves import distribution, intervals, ordinal, survival
from reproduce.defaults import calibration, credit, untouched
from reproduce.posteriors import study as reference_posteriors
from reproduce.searching import search
from reproduce.study import Study

#: Name -> study: methods on data sets over splits.
STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        untouched.STUDY,
        calibration.STUDY,
        credit.STUDY,
        credit_falls.STUDY,
        ordinal.STUDY,
        distribution.STUDY,
        intervals.STUDY,
        survival.STUDY,
        auctions.STUDY,
        members.STUDY,
        stories.STUDY,
        falls.STUDY,
        primitives.STUDY,
        reference_posteriors.STUDY,
        timing.STUDY,
    )
}
#: Name -> module with a protocol of its own: searches, the paper's ways, several in one table.
OTHERS: dict[str, Any] = {
    "quantile": quantile,
    "public": public,
    "search": search,
    "ablation": latent_sizes,
    "credit_witnesses": credit_falls,
}


def listed() -> str:
    """A line for each study: what it asks, its data sets, its methods and its splits."""
    lines = []
    for name, study in STUDIES.items():
        sizes = f"data sets: {len(study.datasets)}; methods: {len(study.methods)}"
        lines.append(f"{name}: {_first(study.about)} ({sizes}; {study.counted}: {study.count})")
    return "\n".join([*lines, *(f"{name}: {_first(m.__doc__)}" for name, m in OTHERS.items())])


def _first(text: str) -> str:
    return text.strip().splitlines()[0]
