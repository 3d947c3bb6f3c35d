"""`python -m reproduce.benchmarks --quick`: every benchmark at a size that takes seconds."""

from __future__ import annotations

import argparse
import os
import sys

from reproduce.in_pairs import run_in_pairs

#: Benchmark -> options of its small size.
QUICK = {
    "copies": "--baselines MLP --copies 2 --steps 3 --repeats 1",
    "gpu": "--device cpu --rows 2000 --revenues 32 --draws 20 --repeats 1",
    "growth": "--points 2 --repeats 1",
    "guards": "--epochs 2 --repeats 1",
    "memory": "--fit-rows 2000 --surface-rows 64 --revenues 64",
    "posterior": "--rows 50 --num-samples 100 --repeats 1",
    "predict": "--rows 100 --draws 32 --repeats 1",
    "responses": "--epochs 1 --repeats 1",
    "scoring": "--rows 1000 --engines pool polars dask",
    "serving": "--clients 8 --seconds 1 --stops 1",
    "threads": "--rows 200 --epochs 1 --predictions 200 --neighbours 1 --repeats 1",
    "training_step": "--steps 5",
}
#: The same of those that read data sets, for which `PYRO_GCM_DATA` has to name their folder.
QUICK_WITH_DATA = {
    "members": "--datasets adult --rows 500 --repeats 1",
    "surface": "--revenues 64 --hidden 16 --repeats 1",
    "whole_fit": "--datasets compas --epochs 1 --repeats 1",
}


def main() -> int:
    """Run them; the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", required=True, help="at a small size")
    parser.parse_args()
    quick = {**QUICK, **(QUICK_WITH_DATA if "PYRO_GCM_DATA" in os.environ else {})}
    failed = run_in_pairs(
        [[[f"reproduce.benchmarks.{name}", *quick[name].split()]] for name in quick]
    )
    for command in failed:
        print(f"failed: {command}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
