"""The index of the nine posteriors, `references.json`, and how it is made.

`python -m reproduce.posteriors.references` writes it anew, by quadrature alone: no line of the
library takes part. It has the densities, all numbers and rows of each problem, and of every
quantity its name, shape, unit, means and standard deviations, so that any sampler can be compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reproduce.posteriors.quadrature import Moments, Problem, moments

FILE = Path(__file__).with_name("references.json")
INDEX: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def _problem(own: dict[str, Any]) -> Problem:
    y = [[float(v) for v in row] if isinstance(row, list) else row for row in own["y"]]
    return Problem(own["numbers"], own["x"], own["r"], y)


PROBLEMS = {name: _problem(own) for name, own in INDEX["problems"].items()}


#: Panels of each latent coordinate, eight nodes each, where those by default take too long.
PANELS, FEW = 96, {"two_costs": 32, "kernel": 16}


def computed(name: str, panels: int | None = None) -> list[Moments]:
    """The moments of every row of a problem."""
    p = PROBLEMS[name]
    panels = panels or FEW.get(name, PANELS)
    return [moments(p, row, panels) for row in range(len(p.x))]


def entry(name: str) -> dict[str, Any]:
    """A problem as it stands in the index, its numbers with eight digits."""
    panels, known = FEW.get(name, PANELS), INDEX["problems"][name]
    found, finer = computed(name), computed(name, panels + panels // 2)
    moved = max(
        max(abs(a.mean[q] - b.mean[q]) / b.sd[q], abs(a.sd[q] / b.sd[q] - 1.0))
        for a, b in zip(found, finer, strict=True)
        for q in b.mean
    )

    def rounded(values: Iterable[float]) -> list[float]:
        return [float(f"{value:.8g}") for value in values]

    quantities = []
    for q in known["quantities"]:
        mean, sd = (
            rounded(getattr(row, key)[q["name"]] for row in finer) for key in ("mean", "sd")
        )
        quantities.append({**q, "mean": mean, "sd": sd})
    log_evidence = rounded(row.log_evidence for row in finer)
    new = {"quantities": quantities, "log_evidence": log_evidence}
    return {**known, **new, "resolution": float(f"{moved:.0e}")}


def stored() -> dict[str, list[Moments]]:
    """The moments in the index, by problem and row."""
    moments_of = {}
    for name, known in INDEX["problems"].items():
        moments_of[name] = list[Moments]()
        for row, log_evidence in enumerate(known["log_evidence"]):
            mean, sd = (
                {q["name"]: q[key][row] for q in known["quantities"]} for key in ("mean", "sd")
            )
            moments_of[name].append(Moments(mean, sd, log_evidence))
    return moments_of


def main() -> None:
    """Write the index."""
    problems = {name: entry(name) for name in PROBLEMS}
    text = json.dumps({**INDEX, "problems": problems}, indent=1, allow_nan=False)
    of_numbers = re.compile(r"\[[^][{}]*\]")  # lists that stand on one line
    text = of_numbers.sub(lambda found: re.sub(r"\s+", " ", found[0]), text)
    FILE.write_text(f"{text}\n", encoding="utf-8")
    print({name: own["resolution"] for name, own in problems.items()})


if __name__ == "__main__":
    main()
