"""What a first call imports: nothing that takes longer than the call itself.

Calls of torch's `MultivariateNormal`, as in `IGCM.surface`, are left out: it imports sympy.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

CALLS = {
    "import": "",
    "predict": "GCM(3, 2).predict(x, r)",
    "surface": "GCM(3, 2, alternatives=2).surface(x, r)",
    "fit": "fit(GCM(3, 2), x, r, y, epochs=2, validation=0.2, progress=False)",
    "fit of a baseline": "baselines.fit(baselines.MLP(3, 2), x, r, y, epochs=2, progress=False)",
}
#: Modules and the CPU time of their import on one machine.
SLOW = {"sympy": "0.3 s", "torch._dynamo": "1.0 s", "pandas": "0.2 s", "matplotlib": "0.2 s"}
CODE = """
import sys, warnings
import torch
from pyro_gcm import GCM, baselines, fit
warnings.simplefilter("ignore")
x, r, y = torch.randn(20, 3), torch.randn(20, 2), torch.arange(20.0) % 2
{call}
print(*(name for name in {slow} if name in sys.modules))
"""


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("call", CALLS)
def test_first_call_imports_nothing_slow(call: str) -> None:
    code = CODE.format(call=CALLS[call], slow=list(SLOW))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
