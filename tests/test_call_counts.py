"""Speed without a clock: counts of what takes time, none of which may rise by 5 %.

    PYTHONPATH=tests python tests/test_call_counts.py --write    writes them anew

Those of `call_counts.json` are lowered where they fell, and raised where a commit says why. Calls
are of torch's operators below autograd, with a backward pass and the optimiser's: they depend on
the version of torch, and not on the processor.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from torch.utils._python_dispatch import TorchDispatchMode

from pyro_gcm import save

FILE = Path(__file__).with_name("call_counts.json")
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
#: The version of torch that the calls are of.
TORCH = "2.13."
KINDS = ("plain", "members", "survival, members")
#: One after the other; after each the modules of this package are counted.
IMPORTS = "import pyro_gcm", "from pyro_gcm import GCM", "import pyro_gcm.estimators.classifier"
LOADED = "print(sum(n.split('.')[0] == 'pyro_gcm' for n in sys.modules))"


class Calls(TorchDispatchMode):
    """Counts the calls of torch's operators."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def calls_of(kind: str) -> dict[str, int]:
    """Calls of a training step, and of a prediction of one row and of a thousand."""
    model, data = zoo.build(kind), zoo.rows_of(kind, 1000)
    counts: list[int] = []
    with Calls() as calls:
        options: Any = {"device": "cpu", "callback": lambda step: counts.append(calls.count)}
        zoo.quickly(model, data, epochs=1, **options)
    found = {"training step": counts[3] - counts[2]}
    for rows in (1, 1000):
        x, r = data.x[:rows], data.r[:rows]
        model.predict(x, r)  # after which what is made of the weights is kept
        with Calls() as calls:
            model.predict(x, r)
        found[f"prediction of {rows}"] = calls.count
    return {f"{kind}: calls of a {name}": count for name, count in found.items()}


def bytes_of(kind: str) -> dict[str, int]:
    """The size of a saved model."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(save(zoo.build(kind), Path(folder) / "model")).rglob("*")
        size = sum(file.stat().st_size for file in files)
    return {f"{kind}: bytes of a saved model": size}


def bytes_of_wheel() -> dict[str, int]:
    """The size of the wheel of this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-c", BUILD, folder]
        subprocess.run(build, cwd=FILE.parents[1], check=True, capture_output=True)
        (wheel,) = Path(folder).iterdir()
        return {"bytes of the wheel": wheel.stat().st_size}


def modules() -> dict[str, int]:
    """Modules of this package that are loaded after each import."""
    code = "import sys\n" + "".join(f"{line}\n{LOADED}\n" for line in IMPORTS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    counts = map(int, done.stdout.split())
    return {f"modules after {line}": n for line, n in zip(IMPORTS, counts, strict=True)}


def check(found: dict[str, int]) -> None:
    """Refuse a rise of 5 %."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    rose = {name: (stored[name], n) for name, n in found.items() if n >= 1.05 * stored[name]}
    assert not rose, f"rose by 5 % or more, from and to: {rose}"


@pytest.mark.skipif(not torch.__version__.startswith(TORCH), reason=f"counts of torch {TORCH}*")
@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_torch_do_not_rise(kind: str) -> None:
    check(calls_of(kind))


def test_the_wheel_saved_models_and_imports_do_not_grow() -> None:
    check(bytes_of_wheel())
    check(modules())
    for kind in KINDS:
        check(bytes_of(kind))


if __name__ == "__main__" and "--write" in sys.argv:
    parts = [bytes_of_wheel(), modules()]
    parts += [part for kind in KINDS for part in (calls_of(kind), bytes_of(kind))]
    whole = {name: count for part in parts for name, count in part.items()}
    FILE.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
