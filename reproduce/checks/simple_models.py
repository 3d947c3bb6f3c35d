"""Linear models and untuned boosting on the published rows, with all inputs and with r alone.

They show how much of a score of the published protocol needs x, or more than a straight line.
"""

from __future__ import annotations

from collections.abc import Iterable

from reproduce.methods import METHODS, methods_of
from reproduce.published import QUICK, run
from reproduce.rendering.tables import own_scores
from reproduce.runs import Fit
from reproduce.study import Study
from reproduce.tasks import PUBLISHED_TASKS, TASKS


def cells(fit: Fit) -> Iterable[Fit]:
    """Only boosting, which stops early, depends on the seed."""
    return [fit] if METHODS[fit.method].trees or not fit.seed else []


STUDY = Study(
    *("checks", str(__doc__), {name: TASKS[name].title for name in PUBLISHED_TASKS}),
    *({name: METHODS[name] for name in methods_of("checks")}, run, own_scores),
    counted="seeds",
    variant="published",
    protocol="published",
    splits=lambda count: (("fixed", seed) for seed in range(count)),
    cells=cells,
    quick={"rows": QUICK["rows"]},
)
