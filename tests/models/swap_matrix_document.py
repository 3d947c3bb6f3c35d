"""The document of the swap matrix, written from the table of expected outcomes.

`python tests/models/swap_matrix_document.py` rewrites it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

from swap_matrix import (
    BY_CONSTRUCTOR,
    BY_FIT,
    KERNEL,
    ROWS,
    SIZES,
    TABLES,
    TRAINS,
    X_DIM,
    Row,
    expected,
)

DOCUMENT = Path(__file__).parents[2] / "notebooks" / "swap_matrix.md"

COUNT, STEPS, NUM_PARTICLES = 48, 3, 4
#: Estimates of the loss of every row that are averaged, before and after training.
ESTIMATES = 16
#: How far the loss has to fall, in nats a row.
MARGIN = 0.01

INTRODUCTION = f"""# The swap matrix

Every part of a model in the place of every other, and every bound of `fit`: what trains, and what
is refused for which reason. There is no third outcome.

Each model has x_dim={X_DIM}, r_dim=2 (1 for quantiles), z_dim={SIZES["z_dim"]}, \
hidden={SIZES["hidden"]} and gets {STEPS} steps
of `fit` with {NUM_PARTICLES} particles on {COUNT} rows. It trains ({TRAINS}) if

- the loss, the mean of {ESTIMATES} estimates with the same draws before and after, falls by more
  than {MARGIN} nats a row;
- every parameter of `trained_parameters(objective)` moves and no other does;
- the parameters and the predictions are finite;
- the only warning is that of the literal loss (prior "standard" under objective "conditional" or
  "response_revenue").

It is refused (a letter) if the constructor or `fit` raises a ValueError with the message of that
reason before anything in the model has changed.

`tests/models/test_swap_matrix.py` tries these combinations: every run of the tests as many as it
takes for every two choices that can be trained together, and one for every reason; the weekly run
all of them. `python tests/models/swap_matrix_document.py` writes this file.

| | raised by | reason |
|---|---|---|
"""
LEGEND = """
In the tables below, column "model" is the constructor; a row that it refuses has no other cells.
Rows with the same cells share a line. What differs for one response (or k_dim) is in brackets.
`ImportanceWeightedELBO` and `RenyiELBO` are objects, with alpha=0.5, and so is `PooledELBO`, with
pooling=0.5; the other columns are names.
"""
ABOUT = {
    "GCM": "Responses binary, continuous and quantile.",
    "MemberGCM": "Three members, 3 alternatives and 1.",
    "IGCM": 'Responses binary, continuous and quantile, with kernel_guide="amortised".',
    KERNEL: 'Response binary, k_dim 2 and 1, prior "conditional" (under "joint" "standard").',
}


def render() -> str:
    """The document."""
    parts = [INTRODUCTION]
    for by, reasons in (("constructor", BY_CONSTRUCTOR), ("fit", BY_FIT)):
        parts += [f"| {name} | {by} | {why.sentence} |\n" for name, why in reasons.items()]
    parts += [total(), LEGEND]
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
    DOCUMENT.write_text(render(), encoding="utf-8")
