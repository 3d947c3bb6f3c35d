"""The document of the swap matrix: written from its outcomes, and read back.

`python tests/models/swap_matrix_document.py` runs all combinations and rewrites it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from swap_matrix import (
    COUNT,
    ESTIMATES,
    GROUPS,
    KERNEL,
    MARGIN,
    MATRICES,
    NUM_PARTICLES,
    REASONS,
    SIZES,
    STEPS,
    TRAINS,
    X_DIM,
    Combination,
    Group,
    Outcomes,
    bounds,
    combinations,
    run_group,
)
from tqdm import tqdm

DOCUMENT = Path(__file__).parents[2] / "notebooks" / "swap_matrix.md"


MODEL = f"z_dim={SIZES['z_dim']}, hidden={SIZES['hidden']}"
INTRODUCTION = f"""# The swap matrix

Every part of a model in the place of every other, and every bound of `fit`: what trains, and what
is refused for which reason. There is no third outcome.

Each model has x_dim={X_DIM}, r_dim=2 (1 for quantiles), {MODEL} and gets {STEPS} steps
of `fit` with {NUM_PARTICLES} particles on {COUNT} rows. It trains ({TRAINS}) if

- the loss, the mean of {ESTIMATES} estimates with the same draws before and after, falls by more
  than {MARGIN} nats a row;
- every parameter of `trained_parameters(objective)` moves and no other does;
- the parameters and the predictions are finite;
- the only warning is that of the literal loss (prior "standard" under objective "conditional" or
  "response_revenue").

It is refused (a letter) if the constructor or `fit` raises a ValueError with the message of that
reason before anything in the model has changed.

`tests/models/test_swap_matrix.py` runs all of it and compares it with this file, which
`python tests/models/swap_matrix_document.py` writes.

| | raised by | reason |
|---|---|---|
"""
LEGEND = """
In the tables below, column "model" is the constructor; a row that it refuses has no other cells.
Rows with the same cells share a line. What differs for one response (or k_dim) is in brackets.
`ImportanceWeightedELBO` and `RenyiELBO` are objects, with alpha=0.5; the other columns are names.
"""
ABOUT = {
    "GCM": "Responses binary, continuous and quantile.",
    "IGCM": 'Responses binary, continuous and quantile, with kernel_guide="amortised".',
    KERNEL: 'Response binary, k_dim 2 and 1, prior "conditional" (under "joint" "standard").',
}


def render(outcomes: Outcomes) -> str:
    """The document."""
    parts = [INTRODUCTION]
    parts += [f"| {name} | {why.by} | {why.sentence} |\n" for name, why in REASONS.items()]
    parts += ["\n## Totals\n\n", *totals(outcomes), LEGEND]
    for matrix in MATRICES.values():
        parts.append(f"\n## {matrix.title}\n\n{ABOUT[matrix.title]}\n")
        for objective in matrix.kind.objectives:
            head = [matrix.first[0], matrix.second[0], "model", *bounds(objective)]
            parts.append(f'\n### Objective "{objective}"\n\n' + line(head))
            parts.append("|" + "---|" * len(head) + "\n")
            for group in GROUPS:
                if group[:2] == (matrix.title, objective):
                    parts += group_lines(group, outcomes)
    return "".join(parts)


def totals(outcomes: Outcomes) -> Iterator[str]:
    """Lines of the table that counts."""
    head = ["", "combinations", "train", "refused by the constructor", "refused by `fit`"]
    yield line(head)
    yield "|" + "---|" * len(head) + "\n"
    for name in (*MATRICES, "all"):
        found = Counter(
            TRAINS if outcome == TRAINS else REASONS[outcome].by
            for combination, outcome in outcomes.items()
            if name in (combination.group.matrix, "all")
        )
        counts = found.total(), found[TRAINS], found["constructor"], found["fit"]
        yield line([name, *(f"{count:,}" for count in counts)])


def group_lines(group: Group, outcomes: Outcomes) -> Iterator[str]:
    """Lines of a group; neighbours with the same cells share one."""
    matrix = MATRICES[group.matrix]

    def cells(second: str) -> list[str]:
        def of(bound: str) -> dict[str, str]:
            return {v: outcomes[Combination(group, second, v, bound)] for v in matrix.variants}

        columns = [of(bound) for bound in bounds(group.objective)]
        model = {v: outcome if unbuilt(outcome) else TRAINS for v, outcome in columns[0].items()}
        built = [v for v, outcome in model.items() if outcome == TRAINS]
        return [cell(model), *(cell({v: column[v] for v in built}) for column in columns)]

    for shared, seconds in itertools.groupby(matrix.second[1], cells):
        yield line([group.first, ", ".join(seconds), *shared])


def cell(outcomes: dict[str, str]) -> str:
    """The outcome of most variants, and what differs in brackets; empty for no variants."""
    if not outcomes:
        return ""
    most = Counter(outcomes.values()).most_common(1)[0][0]
    others = ", ".join(f"{v} {outcome}" for v, outcome in outcomes.items() if outcome != most)
    return f"{most} ({others})" if others else most


def unbuilt(outcome: str) -> bool:
    """Whether it was the constructor that refused."""
    return outcome != TRAINS and REASONS[outcome].by == "constructor"


def line(cells: list[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |\n"


def read(document: str) -> Outcomes:
    """What a document says, the inverse of `render`; of anything else it says nothing."""
    outcomes: Outcomes = {}
    title, objective = "", ""
    for text in document.splitlines():
        if text.startswith("## "):
            title, objective = text[3:], ""
        elif heading := re.fullmatch(r'### Objective "(\w+)"', text):
            objective = heading[1]
        elif title in MATRICES and objective and text.startswith("| "):
            matrix = MATRICES[title]
            first, seconds, model, *columns = (c.strip() for c in text.strip("|").split("|"))
            if first not in matrix.first[1]:  # the head
                continue
            group = Group(title, objective, first)
            by_constructor = from_cell(model, list(matrix.variants))
            built = [v for v, outcome in by_constructor.items() if outcome == TRAINS]
            for second in seconds.split(", "):
                for bound, column in zip(bounds(objective), columns, strict=True):
                    here = {**by_constructor, **from_cell(column, built)}
                    for variant, outcome in here.items():
                        outcomes[Combination(group, second, variant, bound)] = outcome
    return outcomes


def from_cell(text: str, variants: list[str]) -> dict[str, str]:
    """The inverse of `cell`."""
    most, _, others = text.partition(" (")
    outcomes = dict.fromkeys(variants, most)
    for other in others.rstrip(")").split(", ") if others else ():
        variant, _, outcome = other.partition(" ")
        outcomes[variant] = outcome
    return outcomes


def main() -> None:
    """Run everything and write the document."""
    outcomes: Outcomes = {}
    with tqdm(total=sum(1 for group in GROUPS for _ in combinations(group))) as bar:
        for group in GROUPS:
            outcomes |= run_group(group)
            bar.update(len(outcomes) - bar.n)
    DOCUMENT.write_text(render(outcomes), encoding="utf-8")


if __name__ == "__main__":
    main()
