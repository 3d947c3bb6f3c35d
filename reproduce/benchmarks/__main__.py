"""`python -m reproduce.benchmarks NAME`: times of things that run in turn, and their ratios."""

from __future__ import annotations

import argparse
import os
import sys

import torch

from reproduce.arguments import positive_count
from reproduce.benchmarks.models import BENCHMARKS
from reproduce.benchmarks.paired import show
from reproduce.in_pairs import run_in_pairs

#: Those that need data sets, for which `PYRO_GCM_DATA` has to name their folder.
WITH_DATA = ("surface", "members")
#: Modules with benchmarks of their own form -> options of a small size.
MODULES = {
    "scoring": "--rows 1000 --engines pool polars dask",
    "serving": "--clients 8 --seconds 1 --stops 1",
    "threads": "--rows 200 --epochs 1 --predictions 200 --neighbours 1 --repeats 1",
    "training_step": "--steps 5",
}


def main() -> int:
    """Run one, or with --quick alone all; the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.benchmarks", description=__doc__)
    about = "; ".join(f"{name}: {str(b.__doc__).splitlines()[0]}" for name, b in BENCHMARKS.items())
    parser.add_argument("name", nargs="?", choices=list(BENCHMARKS), help=about)
    parser.add_argument("--repeats", type=positive_count, default=7)
    parser.add_argument("--quick", action="store_true", help="at a size that takes seconds")
    options = parser.parse_args()
    if options.name is not None:
        torch.manual_seed(0)
        for comparison in BENCHMARKS[options.name](options.quick):
            print(f"\n{comparison.title}")
            show(comparison.seconds(options.repeats), comparison.reference)
        return 0
    if not options.quick:
        parser.error("name one, or pass --quick for all of them")
    here = [name for name in BENCHMARKS if name not in WITH_DATA or "PYRO_GCM_DATA" in os.environ]
    chains = [
        *([["reproduce.benchmarks", name, "--quick", "--repeats", "1"]] for name in here),
        *([[f"reproduce.benchmarks.{name}", *MODULES[name].split()]] for name in MODULES),
    ]
    failed = run_in_pairs(chains)
    for command in failed:
        print(f"failed: {command}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
