"""The studies of the report: `python -m reproduce NAME` runs one, and `list` shows them all."""

from __future__ import annotations

from typing import Any

from reproduce import public, quantile, timing
from reproduce.ablations import auctions, implicit, latent_sizes, members, particles, stories
from reproduce.checks import (
    credit_falls,
    gradient_noise,
    order,
    primitives,
    row_weights,
    simple_models,
)
from reproduce.curves import censoring, distribution, intervals, ordinal, survival
from reproduce.defaults import calibration, credit, loans, mixed, untouched
from reproduce.posteriors import calibration as guide_calibration
from reproduce.posteriors import study as reference_posteriors
from reproduce.searching import credit_search, open_track, search
from reproduce.study import Study

#: Name -> study: methods on data sets over splits.
STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        untouched.STUDY,
        calibration.STUDY,
        mixed.STUDY,
        loans.STUDY,
        credit.STUDY,
        credit_search.STUDY,
        credit_falls.STUDY,
        ordinal.STUDY,
        distribution.STUDY,
        intervals.STUDY,
        survival.STUDY,
        censoring.STUDY,
        implicit.STUDY,
        auctions.STUDY,
        particles.STUDY,
        members.STUDY,
        stories.STUDY,
        simple_models.STUDY,
        order.FALLS,
        order.CROSSINGS,
        row_weights.STUDY,
        gradient_noise.STUDY,
        primitives.STUDY,
        reference_posteriors.STUDY,
        guide_calibration.STUDY,
        timing.STUDY,
    )
}
#: Name -> module with a protocol of its own: searches, the paper's ways, several in one table.
OTHERS: dict[str, Any] = {
    "quantile": quantile,
    "public": public,
    "search": search,
    "open": open_track,
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
