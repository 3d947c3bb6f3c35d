"""The files of results: the command that makes each, and how many fits it has."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from reproduce import public
from reproduce.ablations import latent_sizes
from reproduce.methods import methods_of
from reproduce.methods.spaces import SEARCHED
from reproduce.released import training as released
from reproduce.released.networks import FORMS
from reproduce.runs import Fit
from reproduce.searching import search
from reproduce.searching.tuning import DESIGN
from reproduce.studies import STUDIES
from reproduce.tasks import PUBLISHED_TASKS, TASKS


def _planned(experiment: str, repeats: int, tasks: int = 1) -> int:
    return len(methods_of(experiment)) * tasks * repeats


def _released(make: Callable[..., list[Fit]], datasets: Sequence[str], seeds: int) -> int:
    methods = list(FORMS)
    return len(make(Namespace(datasets=datasets, methods=methods, seeds=seeds, quick=False)))


def _of(study: str) -> dict[str, tuple[str, int]]:
    return {file: (study, count) for file, count in STUDIES[study].planned().items()}


_PAPER, _EVERY, _TRIALS = len(PUBLISHED_TASKS), len(TASKS), len(DESIGN)
_SPACES = sum(method.space is not None for method in SEARCHED.values())
TRIALS_OF = {Path(search.trials_file(name)).stem: plan for name, plan in search.PLANS.items()}
FINALS_OF = {Path(search.final_file(name)).stem: plan for name, plan in search.PLANS.items()}
CHANGES_OF = {Path(public.file_of("changes", name)).stem: name for name in released.CHANGED}
SURVIVAL, CREDIT_FILES = [*_of("survival")], [*_of("credit")]
#: File of results -> the command that makes it, and the fits at its defaults (0: it has no fits).
FILES = {
    "datasets": ("datasets", 0),
    "quantile_tuning": ("quantile --tune", _planned("quantile", _TRIALS)),
    "quantile": ("quantile --tune", _planned("quantile", 10)),
    "quantile_paper_setting": ("quantile --setting paper", _planned("quantile", 10)),
    "public_published": ("public --protocol published", _planned("published", 10, _PAPER)),
    "public_released": (
        "public --protocol released",
        _released(released.fits, PUBLISHED_TASKS, 10),
    ),
    **{
        file: ("public --protocol changes --seeds 5", _released(released.changed, [name], 5))
        for file, name in CHANGES_OF.items()
    },
    "public_positive": (
        "public --protocol positive",
        _released(released.mapped, released.CHANGED, 10),
    ),
    "public_tuning": ("public --tune", _planned("held-out", _TRIALS, _EVERY)),
    "public_held-out": ("public --tune", _planned("held-out", 10, _EVERY)),
    "public_confirmation": ("public --protocol confirmation", _planned("held-out", 10, _EVERY)),
    "public_members": ("public --protocol members", _planned("members", 20, _EVERY)),
    **{
        file: ("ablation" if protocol == "published" else f"ablation --protocol {protocol}", count)
        for protocol, study in latent_sizes.PROTOCOLS.items()
        for file, count in study.planned().items()
    },
    "timing": ("timing", 0),
    **_of("auctions"),
    **{
        file: ("search", plan.trials * (plan.splits if plan.nested else 1) * _SPACES)
        for file, plan in TRIALS_OF.items()
    },
    **{file: ("search", plan.splits * len(SEARCHED)) for file, plan in FINALS_OF.items()},
    **_of("untouched"),
    "members_ablation": ("members_ablation", 90),
    **_of("credit"),
    **_of("credit_falls"),
    "credit_witnesses": ("credit_witnesses", 0),
    **_of("falls"),
    **_of("survival"),
    **_of("ordinal"),
    **_of("distribution"),
    **_of("intervals"),
    **_of("calibration"),
    **_of("stories"),
    # Those of four functions are run again with ATEN_CPU_CAPABILITY=avx2.
    "primitives": ("primitives", 384 + 256),
    **_of("reference_posteriors"),
}
#: Files with fewer fits than planned: their tables say of how many splits each number is.
GROWING = (*SURVIVAL, "ordinal", "distribution", "public_positive")
#: Files in which a method may have several settings on one split.
MANY_SETTINGS = {"quantile_tuning", "public_tuning", *TRIALS_OF}
MANY_SETTINGS |= {"ablation", "ablation_released", "timing", "public_released", *CHANGES_OF}
MANY_SETTINGS |= {"public_positive", "primitives", "credit_falls"}
