"""The index of the nine posteriors, `references.json`, and how it is made.

`python -m reproduce.posteriors.references` writes it anew, by quadrature alone: no line of the
library takes part. It has the densities, all numbers and rows of each problem, and of every
quantity its name, shape, unit, means and standard deviations, so that any sampler can be compared.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.posteriors import joints
from reproduce.posteriors.joints import Problem
from reproduce.posteriors.quadrature import Moments, moments

FILE = Path(__file__).with_name("references.json")
INDEX: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
#: Function of `joints`, where it has not the name of the problem.
_JOINTS = dict.fromkeys(("one_cost", "two_costs", "far_tails"), "plain")
_JOINTS["infinite_costs"] = "alternatives"


def _problem(name: str, own: dict[str, Any]) -> Problem:
    y = [[float(v) for v in row] if isinstance(row, list) else row for row in own["y"]]
    (unit, *_) = (q["unit"] for q in own["quantities"] if q["name"].startswith("c["))
    joint = getattr(joints, _JOINTS.get(name, name))
    model = tuple(own["model"])
    return Problem(own["title"], model, own["numbers"], own["x"], own["r"], y, joint, unit)


PROBLEMS = {name: _problem(name, own) for name, own in INDEX["problems"].items()}


#: Panels of each latent coordinate, eight nodes each, where those by default take too long.
PANELS, FEW = 96, {"two_costs": 32, "kernel": 16}


def computed(name: str, panels: int | None = None) -> list[Moments]:
    """The moments of every row of a problem."""
    p = PROBLEMS[name]
    panels = panels or FEW.get(name, PANELS)
    return [moments(p.joint(p, row, panels)) for row in range(len(p.x))]


def entry(name: str) -> dict[str, Any]:
    """A problem as it stands in the index."""
    p, panels = PROBLEMS[name], FEW.get(name, PANELS)
    found, finer = computed(name), computed(name, panels + panels // 2)
    moved = 0.0
    for a, b in zip(found, finer, strict=True):
        for q in b.mean:
            moved = max(moved, abs(a.mean[q] - b.mean[q]) / b.sd[q], abs(a.sd[q] / b.sd[q] - 1.0))
    names = list(dict.fromkeys(q for row in finer for q in row.mean))
    quantities = [
        {
            "name": q,
            "shape": [len(finer)],
            "unit": "probability" if "infinite" in q else p.unit if q[0] == "c" else "none",
            "mean": [_plain(row.mean.get(q, np.nan)) for row in finer],
            "sd": [_plain(row.sd.get(q, np.nan)) for row in finer],
        }
        for q in names
    ]
    return {
        **INDEX["problems"][name],
        "quantities": quantities,
        "log_evidence": [_plain(row.log_evidence) for row in finer],
        "resolution": float(f"{moved:.0e}"),
    }


def stored() -> dict[str, list[Moments]]:
    """The moments in the index, by problem and row."""
    found = {}
    for name, own in INDEX["problems"].items():
        rows = []
        for row, log_evidence in enumerate(own["log_evidence"]):
            there = [q for q in own["quantities"] if q["mean"][row] is not None]
            mean, sd = ({q["name"]: q[key][row] for q in there} for key in ("mean", "sd"))
            rows.append(Moments(mean, sd, log_evidence))
        found[name] = rows
    return found


def _plain(value: Any) -> Any:
    """Numbers with eight digits, null for NaN and "inf" for infinity."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if np.isnan(value):
        return None
    return "inf" if np.isinf(value) else value if isinstance(value, int) else float(f"{value:.8g}")


def main() -> None:
    """Write the index."""
    problems = {name: entry(name) for name in PROBLEMS}
    index = {**INDEX, "problems": problems}
    text = json.dumps(index, indent=1, allow_nan=False)
    of_numbers = re.compile(r"\[[^][{}]*\]")  # lists that stand on one line
    text = of_numbers.sub(lambda found: re.sub(r"\s+", " ", found[0]), text)
    FILE.write_text(f"{text}\n", encoding="utf-8")
    print({name: own["resolution"] for name, own in problems.items()})


if __name__ == "__main__":
    main()
