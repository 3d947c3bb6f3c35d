"""What a first call imports: nothing that takes longer than the call itself.

Calls of torch's `MultivariateNormal`, as in `IGCM.surface`, are left out: it imports sympy.
"""

from __future__ import annotations

import subprocess
import sys

#: One after the other in a new process; the first is the import alone.
CALLS = [
    "",
    "GCM(3, 2).predict(x, r)",
    "GCM(3, 2, alternatives=2).surface(x, r)",
    "fit(GCM(3, 2), x, r, y, epochs=2, validation=0.2, progress=False)",
    "baselines.fit(baselines.MLP(3, 2), x, r, y, epochs=2, progress=False)",
]
#: Modules and the CPU time of their import on one machine.
SLOW = {"sympy": "0.3 s", "torch._dynamo": "1.0 s", "pandas": "0.2 s", "matplotlib": "0.2 s"}
CODE = f"""
import sys, warnings
import torch
from pyro_gcm import GCM, baselines, fit
warnings.simplefilter("ignore")
x, r, y = torch.randn(20, 3), torch.randn(20, 2), torch.arange(20.0) % 2
for call in {CALLS}:
    exec(call)
    for name in {list(SLOW)}:
        assert name not in sys.modules, (name, call)
"""


def test_first_calls_import_nothing_slow() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_package_can_be_imported_first() -> None:
    code = """
import importlib, pkgutil, sys
import pyro_gcm
names = [f"pyro_gcm.{m.name}" for m in pkgutil.iter_modules(pyro_gcm.__path__) if m.ispkg]
for name in names:
    for loaded in [other for other in sys.modules if other.split(".")[0] == "pyro_gcm"]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
