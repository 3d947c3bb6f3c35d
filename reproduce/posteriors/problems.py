"""The problems of the index: their densities, their numbers and their rows.

Every problem has latent variables of a row, costs c and an outcome y, and is small enough for
quadrature. They are defined in `references.json`; `joints.py` has the densities as functions, and
`models.py` the same models in the library.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reproduce.posteriors import joints
from reproduce.posteriors.joints import Problem

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
