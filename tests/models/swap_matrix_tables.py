"""The tables of the swap matrix, and the section of the catalogue about it.

`python tests/models/swap_matrix_tables.py` prints both, from the table of expected outcomes.
"""

from __future__ import annotations

import itertools
from collections import Counter

from swap_matrix import BY_CONSTRUCTOR, BY_FIT, KERNEL, REASONS, ROWS, TABLES, TRAINS, Row, expected

COUNT, STEPS, NUM_PARTICLES = 48, 3, 4
#: Estimates of the loss of every row that are averaged, before and after training.
ESTIMATES = 16
#: How far the loss has to fall, in nats a row; it falls least, by 0.006, with a flow for a guide.
MARGIN = 0.003

#: The section of `notebooks/catalogue.md`, before the reasons.
INTRODUCTION = f"""\
The tests combine all named parts, objectives and bounds (the swap matrix). A combination trains
if {STEPS} steps of `fit` on {COUNT} rows lower the loss by more than {MARGIN} nats a row, move
every parameter of `trained_parameters(objective)` and no other, and leave parameters and
predictions finite. Otherwise the constructor or `fit` raises a ValueError for one of these reasons
before anything in the model has changed. `python tests/models/swap_matrix_tables.py` prints every
combination.

| Refused by | Reason |
|---|---|
"""
LEGEND = """
A letter is the reason for a refusal. Column "model" is the constructor; a row that it refuses has
no other cells. Rows with the same cells share a line. What differs for one response (or k_dim) is
in brackets. `ImportanceWeightedELBO` and `RenyiELBO` (alpha=0.5) are objects; the other columns
are names.

| | Reason |
|---|---|
"""
ABOUT = {
    "GCM": "Responses binary, continuous and quantile.",
    "MemberGCM": "Three members, 3 alternatives and 1.",
    "IGCM": 'Responses binary, continuous and quantile, with kernel_guide="amortised".',
    KERNEL: 'Response binary, k_dim 2 and 1, prior "conditional" (under "joint" "standard").',
}


def section() -> str:
    """The section of the catalogue: every reason, and how many combinations it leaves."""
    reasons = [
        f"| {by} | {why.sentence} |\n"
        for by, found in (("constructor", BY_CONSTRUCTOR), ("`fit`", BY_FIT))
        for why in found.values()
    ]
    return "".join([INTRODUCTION, *reasons, total()])


def tables() -> str:
    """Every combination, a table for each model and objective."""
    reasons = (f"| {name} | {why.sentence} |\n" for name, why in REASONS.items())
    parts = [LEGEND, *reasons]
    for (title, objective), rows in itertools.groupby(ROWS, lambda row: row[:2]):
        table = TABLES[title]
        if objective == table.kind.objectives[0]:  # type: ignore[attr-defined]
            parts.append(f"\n## {title}\n\n{ABOUT[title]}\n")
        of_table = list(rows)
        head = [*list(table.axes)[:2], "model", *of_table[0].bounds()]
        parts += [f'\n### Objective "{objective}"\n\n', line(head), "|" + "---|" * len(head) + "\n"]
        for (first, shared), like in itertools.groupby(
            of_table, lambda row: (row.first, cells(row))
        ):
            parts.append(line([first, ", ".join(row.second for row in like), *shared]))
    return "".join(parts)


def total() -> str:
    """How many combinations there are, and what comes of them."""
    found = Counter(expected(combination) for row in ROWS for _, combination in row.combinations())
    by_constructor, by_fit = (sum(found[name] for name in by) for by in (BY_CONSTRUCTOR, BY_FIT))
    return (
        f"\nOf {found.total():,} combinations {found[TRAINS]:,} train, "
        f"{by_constructor:,} are refused by the constructor and {by_fit:,} by `fit`.\n"
    )


def cells(row: Row) -> list[str]:
    """What the constructor does with a row, and then `fit` with every bound."""
    columns: dict[str, dict[str, str]] = {bound: {} for bound in row.bounds()}
    model: dict[str, str] = {}
    for variant, combination in row.combinations():
        outcome = expected(combination)
        model[variant] = outcome if outcome in BY_CONSTRUCTOR else TRAINS
        if outcome not in BY_CONSTRUCTOR:
            columns[combination.bound][variant] = outcome
    return [cell(model), *map(cell, columns.values())]


def cell(outcomes: dict[str, str]) -> str:
    """The outcome of most variants, and what differs in brackets; empty for no variants."""
    if not outcomes:
        return ""
    most = Counter(outcomes.values()).most_common(1)[0][0]
    others = ", ".join(f"{v} {outcome}" for v, outcome in outcomes.items() if outcome != most)
    return f"{most} ({others})" if others else most


def line(cells: list[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |\n"


if __name__ == "__main__":
    print(section(), tables(), sep="")
