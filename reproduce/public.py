"""All methods on the public data sets: Table 3 of the paper, under several protocols.

"held-out" has the best of six settings of every method, as `methods/chosen.json` has them;
"confirmation" is "held-out" on further splits, which were not looked at when choices were made;
"members" are members with their defaults on the splits of both; "published" is the training of this
library on what the paper's code reads, see `reproduce.published`; "released" is the training code
behind the paper's table, see `reproduce.released`, "changes" that with one change at a time, and
"positive" with other maps to positive weights (appendix E.1).
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch

from pyro_gcm import audit_monotonicity
from reproduce import published, tasks
from reproduce.methods import CHOSEN, METHODS, methods_of, rows_of, train
from reproduce.published import QUICK
from reproduce.released import training as released
from reproduce.released.networks import FORMS
from reproduce.runs import Fit, Scores, nan_if_diverged
from reproduce.scores import point_scores
from reproduce.study import Protocols, Study, but_the_seed, named, numbered
from reproduce.tasks import TASKS

#: First split of each protocol with random splits.
FIRST_SPLIT = {"held-out": 0, "confirmation": 10}
#: Size of the search for violations in every held-out fit.
AUDITED_ROWS, AUDITED_PAIRS = 500, 2_000


@nan_if_diverged(lambda fit: [TASKS[fit.dataset].metric])
def run(fit: Fit, device: str = "cpu") -> Scores:
    """One fit on a random split."""
    dataset, settings = tasks.load(fit.dataset, fit.variant), fit.options
    limit = settings.pop("rows", None)
    learn, test = (part[:limit] for part in dataset.split(int(fit.split)))
    if METHODS[fit.method].estimator:
        settings.pop("epochs", None)  # of --quick
    start, rows = time.perf_counter(), rows_of(dataset, learn)
    model, history = train(fit.method, rows, settings, fit.seed, device=device)
    seconds = time.perf_counter() - start
    epochs = history.best_epoch if history else 0
    x, r, y = dataset.x[test].to(device), dataset.r[test].to(device), dataset.y[test].numpy()
    prediction = model.predict(x, r).double().cpu().numpy()
    scores = point_scores(dataset.response, prediction, y)
    if fit.protocol == "held-out":
        if isinstance(model, torch.nn.Module):
            model.double()  # so that what is left is not rounding
        few = x[:AUDITED_ROWS], r[:AUDITED_ROWS]
        more: Any = {"searches": ("random",), "progress": False}
        audit = audit_monotonicity(model, *few, pairs=AUDITED_PAIRS, **more)
        scores["violation rate"] = audit.rate
    return {**scores, "seconds": seconds, "epochs": epochs}


_study = partial(Study, "public", str(__doc__), counted="seeds")
_held_out = partial(
    _study,
    *(TASKS, dict.fromkeys(methods_of("held-out")), run, "4"),
    settings=lambda name, method: [CHOSEN["public"][name][method]],
    quick=QUICK,
)
_released = partial(
    _study,
    run=released.run,
    page="3",
    quick_count=2,
    variant="published",
    protocol="released",
    splits=named("fixed"),
    quick=released.QUICK,
    together=but_the_seed,
)
#: Name -> protocol.
PROTOCOLS = {
    **{
        name: _held_out(protocol=name, splits=partial(numbered, first=first), file=f"public_{name}")
        for name, first in FIRST_SPLIT.items()
    },
    "members": _study(
        *(TASKS, dict.fromkeys(methods_of("members")), run, "4"),
        splits=lambda count: [
            pair for first in FIRST_SPLIT.values() for pair in numbered(count, first)
        ],
        quick={"rows": QUICK["rows"]},
        file="public_members",
    ),
    "published": _study(
        *(TASKS, dict.fromkeys(methods_of("published")), published.run),
        "3",
        variant="published",
        protocol="published",
        splits=named("fixed"),
        settings=published.settings_of,
        together=but_the_seed,
        quick=QUICK,
        file="public_published",
    ),
    "released": _released(*(TASKS, FORMS), settings=released.settings_of, file="public_released"),
    "changes": _released(
        *(released.CHANGED, FORMS), settings=released.changed, file="public_changes_{dataset}"
    ),
    "positive": _released(
        *(released.CHANGED, dict.fromkeys(released.MAPPED)),
        settings=released.mapped,
        file="public_positive",
    ),
}


STUDY = Protocols("protocol", PROTOCOLS)
