"""Peak memory of `fit` and `surface` above what the process holds before them. Linux only.

    python -m reproduce.benchmarks.memory

Every case runs in a process of its own, after a small run that loads what is loaded once. For `fit`
the peak above the start counts the data themselves, which are made after the start: 1.0 would be no
memory at all beyond the data.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

from reproduce.arguments import positive_count

MB = 1e6
X_DIM, R_DIM = 46, 4


def held(field: str) -> float:
    """MB that this process holds ("VmRSS") or has held at most ("VmHWM")."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) / MB for line in lines if line.startswith(field))


def of_fit(rows: int, dtype: Literal["float32", "float64"]) -> str:
    """One epoch of GCM on numpy arrays, rows x (46 + 4), in batches of 1,024."""
    import numpy as np
    import torch

    from pyro_gcm import GCM, fit

    torch.set_num_threads(1)

    def run(n: int) -> int:
        random = np.random.default_rng(0)
        x = random.standard_normal((n, X_DIM), dtype=dtype)
        r = random.standard_normal((n, R_DIM), dtype=dtype)
        y = (r[:, 0] > x[:, 0]).astype(dtype)
        fit(GCM(X_DIM, R_DIM), x, r, y, epochs=1, batch_size=1024, progress=False, device="cpu")
        return x.nbytes + r.nbytes + y.nbytes

    run(4 * 1024)
    start, clock = held("VmRSS"), time.perf_counter()
    data = run(rows) / MB
    seconds = time.perf_counter() - clock
    above = held("VmHWM") - start
    return (
        f"fit, {rows:,} rows, {dtype}: {above:.0f} MB above the start, "
        f"{above / data:.2f} times the data ({data:.0f} MB), {seconds:.0f} s"
    )


def of_surface(rows: int, revenues: int) -> str:
    """A surface of GCM in float32, with 32 draws of z."""
    import torch

    from pyro_gcm import GCM

    torch.set_num_threads(1)
    model = GCM(33, R_DIM)
    model.learn_units(torch.randn(100, 33), torch.randn(100, R_DIM), torch.zeros(100))
    model.surface(torch.randn(4, 33), torch.randn(8, R_DIM), num_samples=32)
    start, clock = held("VmRSS"), time.perf_counter()
    shape = model.surface(torch.randn(rows, 33), torch.randn(revenues, R_DIM), num_samples=32).shape
    seconds = time.perf_counter() - clock
    above, output = held("VmHWM") - start, 4 * shape.numel() / MB
    return (
        f"surface, {rows:,} x {revenues:,}: {above:.0f} MB above the start, "
        f"{above - output:.0f} MB above the output ({output:.0f} MB), {seconds:.0f} s"
    )


def main() -> None:
    """Print the peak of every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit-rows", type=positive_count, default=10**6)
    parser.add_argument("--surface-rows", type=positive_count, default=10**5)
    parser.add_argument("--revenues", type=positive_count, default=1024)
    options = parser.parse_args()
    for call in (
        *(f"of_fit({options.fit_rows}, {dtype!r})" for dtype in ("float32", "float64")),
        f"of_surface({options.surface_rows}, {options.revenues})",
    ):
        code = f"from reproduce.benchmarks import memory; print(memory.{call})"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    main()
