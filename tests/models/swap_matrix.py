"""The swap matrix: every part of a model in the place of every other, and what comes of it.

`expected` says for each combination that it trains, or the letter of the reason why it is refused.
`test_swap_matrix.py` tries them; as a program, this file prints a section of the catalogue.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pyro.infer import RenyiELBO

from pyro_gcm import GCM, IGCM
from pyro_gcm.inference import ImportanceWeightedELBO
from pyro_gcm.inference.elbo import ELBOS
from pyro_gcm.models import MemberGCM
from pyro_gcm.models.build import GUIDES, KERNEL_GUIDES, PRIORS

TRAINS = "✓"
X_DIM = 3
SIZES: dict[str, Any] = {"z_dim": 2, "hidden": (8,), "num_samples": 8}

#: What `fit` is given as `elbo`, for a number of particles.
OBJECTS: dict[str, Callable[[int], Any]] = {
    "ImportanceWeightedELBO": lambda n: ImportanceWeightedELBO(n, alpha=0.5, max_plate_nesting=1),
    "RenyiELBO": lambda n: RenyiELBO(
        alpha=0.5, num_particles=n, max_plate_nesting=1, vectorize_particles=True
    ),
}
BOUNDS = (*ELBOS, *OBJECTS)
LEFT_OUT = "left out"


class Combination(NamedTuple):
    """One choice for every part, the objective and the bound."""

    kind: type
    objective: str
    bound: str
    parts: dict[str, Any]

    def part(self, name: str) -> Any:
        """The choice for a part, "" where the model has no such part."""
        return self.parts.get(name, "")

    @property
    def is_finite(self) -> bool:
        """Whether z is summed out."""
        return self.kind is MemberGCM or self.part("prior") == "categorical"

    def build(self) -> Any:
        """The model, with first weights that are always the same."""
        r_dim = 1 if self.part("response") == "quantile" else 2
        sizes = {"hidden": SIZES["hidden"]} if self.kind is MemberGCM else SIZES
        return self.kind(X_DIM, r_dim, **sizes, **self.parts)


KERNEL = "IGCM, its kernel"
RESPONSES = ("binary", "continuous", "quantile")
PARTS = {"prior": PRIORS, "guide": GUIDES, "response": RESPONSES}
KERNELS = {
    "kernel_prior": ("standard", "conditional"),
    "kernel_guide": KERNEL_GUIDES,
    "k_dim": (2, 1),
}
MEMBERS = {"members": (3, 2), "response": RESPONSES, "alternatives": (3, 1)}
#: A model, the parts of which every choice is combined with every other, and those that stay.
TABLES: dict[str, tuple[Any, dict[str, tuple[Any, ...]], dict[str, Any]]] = {
    "GCM": (GCM, PARTS, {}),
    "MemberGCM": (MemberGCM, MEMBERS, {}),
    "IGCM": (IGCM, PARTS, {"kernel_guide": "amortised"}),
    KERNEL: (IGCM, KERNELS, {"prior": "conditional", "guide": "prior"}),
}


def combinations(title: str, objective: str) -> Iterator[Combination]:
    """Every choice of parts and bounds; "paper" is a loss of its own, which no bound replaces."""
    kind, axes, fixed = TABLES[title]
    if title == KERNEL and objective == "joint":
        fixed = {"prior": "standard", "guide": "amortised"}
    bounds = (LEFT_OUT, *BOUNDS) if objective == "paper" else BOUNDS
    for *choices, bound in itertools.product(*axes.values(), bounds):
        parts = dict(zip(axes, choices, strict=True))
        yield Combination(kind, objective, bound, {**fixed, **parts})


#: The combinations by model and objective.
ALL = {
    (title, objective): list(combinations(title, objective))
    for title, (kind, _, _) in TABLES.items()
    for objective in kind.objectives
}


class Reason(NamedTuple):
    """Why a combination is refused, with which message, and when."""

    sentence: str
    message: str
    when: Callable[[Combination], bool]


# In the order in which they are checked: the first that applies is the one that is raised.
BY_CONSTRUCTOR = {
    "B": Reason(
        'With prior="standard" and guide="prior", z would never depend on x.',
        r"guide='prior' with prior='standard' would never read x: use 'amortised'",
        lambda c: c.part("prior") == "standard" and c.part("guide") == "prior",
    ),
    "C": Reason(
        'With prior="standard", predictions draw z from the guide, which must not read r and y.',
        r"guide='posterior\w*' with prior='standard' must take \(x, None, None\)",
        lambda c: c.part("prior") == "standard" and c.part("guide").startswith("posterior"),
    ),
    "D": Reason(
        "A categorical z is summed out exactly, without a guide.",
        r"guide='\w+' with a categorical prior: z is summed out exactly, without a guide",
        lambda c: c.part("prior") == "categorical" and c.part("guide") != "prior",
    ),
    "E": Reason(
        "The levels of a quantile response are chosen, and IGCM generates its revenues.",
        r"response='quantile' needs GCM: its revenues are levels that are chosen",
        lambda c: c.kind is IGCM and c.part("response") == "quantile",
    ),
}
BY_FIT = {
    "G": Reason(
        'Objective "joint" needs prior="standard": p(z given x) leaves no density of x.',
        r"objective='joint' needs prior='standard': with p\(z\|x\)",
        lambda c: c.objective == "joint" and c.part("prior") != "standard",
    ),
    "H": Reason(
        'Objective "joint" needs kernel_prior="standard": p(k given x) leaves no density of x.',
        r"objective='joint' needs kernel_prior='standard': with p\(k\|x\)",
        lambda c: c.objective == "joint" and c.part("kernel_prior") == "conditional",
    ),
    "I": Reason(
        'Objective "joint" needs observed revenues, and quantile levels are chosen.',
        r"objective='joint' needs revenues that are observed; the levels of response='quantile'",
        lambda c: c.objective == "joint" and c.part("response") == "quantile",
    ),
    "J": Reason(
        'Objective "paper" averages over draws of z, and a categorical z is summed out.',
        r"objective='paper' averages over draws of z: not with a categorical z",
        lambda c: c.objective == "paper" and c.part("prior") == "categorical",
    ),
    "K": Reason(
        'Objective "paper" needs a learned q(k given x, r), which predictions use as well.',
        r"objective='paper' needs a q\(k\|x, r\) of its own, which predictions use as well",
        lambda c: c.objective == "paper" and not c.part("kernel_guide").startswith("amortised"),
    ),
    "L": Reason(
        'Objective "paper" is not an ELBO, and takes none.',
        r"elbo must be left out: objective='paper' is a loss of its own",
        lambda c: c.objective == "paper" and c.bound != LEFT_OUT,
    ),
    "M": Reason(
        'Bound "enum" needs a z with finitely many values.',
        r"elbo='enum' sums over a finite z, and this prior has none: use prior='categorical'",
        lambda c: c.bound == "enum" and not c.is_finite,
    ),
    "N": Reason(
        'The bound cannot differentiate through draws of a finite z; "enum" sums it out.',
        r"elbo=.* cannot differentiate through draws of a categorical z: use 'enum'",
        lambda c: c.bound != "enum" and c.is_finite,
    ),
    "O": Reason(
        'Bound "dreg" needs a learned guide: draws from the program itself would only add noise.',
        r"elbo='dreg' needs a guide of its own for (z|k|z, k): where the guide is the program's",
        lambda c: c.bound == "dreg" and c.part("guide") == "prior",
    ),
}
REASONS = BY_CONSTRUCTOR | BY_FIT


def expected(combination: Combination) -> str:
    """TRAINS, or the letter of the first reason that applies."""
    return next((letter for letter, reason in REASONS.items() if reason.when(combination)), TRAINS)


COUNT, STEPS, NUM_PARTICLES = 48, 8, 4
#: Estimates of the loss of every row that are averaged, before and after training.
ESTIMATES = 16
#: How far the loss has to fall, in nats a row; it falls least, by .04, with a flow for a guide.
MARGIN = 0.003

#: The section of `notebooks/catalogue.md`, before the reasons.
INTRODUCTION = f"""\
The tests combine all named parts, objectives and bounds (the swap matrix). A combination trains
if {STEPS} steps of `fit` on {COUNT} rows lower the loss by more than {MARGIN} nats a row, move
every parameter of `trained_parameters(objective)` and no other, and leave parameters and
predictions finite. Otherwise the constructor or `fit` raises a ValueError for one of these reasons
before anything in the model has changed. `python tests/models/swap_matrix.py` prints this section.

| Refused by | Reason |
|---|---|
"""


def section() -> str:
    """The section of the catalogue: every reason, and how many combinations it leaves."""
    reasons = [
        f"| {by} | {why.sentence} |\n"
        for by, found in (("constructor", BY_CONSTRUCTOR), ("`fit`", BY_FIT))
        for why in found.values()
    ]
    return "".join([INTRODUCTION, *reasons, total()])


def total() -> str:
    """How many combinations there are, and what comes of them."""
    found = Counter(expected(combination) for cell in ALL.values() for combination in cell)
    by_constructor, by_fit = (sum(found[name] for name in by) for by in (BY_CONSTRUCTOR, BY_FIT))
    return (
        f"\nOf {found.total():,} combinations {found[TRAINS]:,} train, "
        f"{by_constructor:,} are refused by the constructor and {by_fit:,} by `fit`.\n"
    )


if __name__ == "__main__":
    print(section())
