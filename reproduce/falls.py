"""Ten million pairs of revenues of every kind of model: which predictions fall where they rise.

Both floating-point types, the model as it was trained and as it was saved and loaded, with one
thread of torch and with two, at a tolerance of 0. IGCM, which promises nothing, is searched as well
and counted apart; a model whose predictions were made to fall shows that the search would find it.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import pyro_gcm
from pyro_gcm._utils.threads import torch_threads
from reproduce.arguments import positive_count
from reproduce.kinds import KINDS, rows, trained
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores, add_run_arguments, as_json, run_fits

DTYPES = {"float32": torch.float32, "float64": torch.float64}
PLACES = ("trained", "loaded")
THREADS = (1, 2)
#: Kinds that promise that no prediction falls.
STRICT = [kind for kind in KINDS if not kind.startswith("IGCM")]
#: Kinds that predict so slowly that they get a tenth of the pairs of others.
SLOW = ("GCM, flow prior",)
#: Not a kind: a model of members whose predictions are rounded up and down by turns.
FALLING = "members, made to fall"


def fits(pairs: int, names: list[str], numbers: Sequence[int] = THREADS) -> list[Fit]:
    """One search of every kind, type, place and number of threads.

    :param pairs: shared out over the kinds that promise something; others get as many as those.
    :param numbers: of threads.
    """
    places = list(itertools.product(DTYPES, PLACES, numbers))
    shares = {name: 0.1 if name in SLOW else 1.0 for name in names}
    whole = len(places) * sum(shares[name] for name in names if name in STRICT)
    cells = [(kind, *place) for kind in names for place in places]
    return [
        Fit(
            *("falls", kind, dtype, place, f"{threads} threads", 0, "audit"),
            as_json({"pairs": math.ceil(pairs * shares.get(kind, 1.0) / whole)}),
        )
        for kind, dtype, place, threads in [*cells, (FALLING, "float32", "trained", 1)]
    ]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Search one model."""
    dtype = DTYPES[fit.variant]
    kind = "members" if fit.dataset == FALLING else fit.dataset
    model: Any = trained(kind, dtype, device=device)
    if fit.protocol == "loaded":
        with tempfile.TemporaryDirectory() as folder:
            model = pyro_gcm.load(pyro_gcm.save(model, Path(folder) / "model"), device=device)
    predictor: Any = model
    if fit.dataset == FALLING:

        def predictor(x: Any, r: Any) -> Any:
            predicted = model.predict(x, r)
            return predicted - 0.01 * (r.sum(1) > 0.0)

    x, r, _ = rows(KINDS[kind].response, dtype)
    started = time.perf_counter()
    with torch_threads(int(fit.split.split()[0])):
        audit = pyro_gcm.audit_monotonicity(
            predictor,
            x,
            r,
            pairs=fit.options["pairs"],
            margin=0.0 if KINDS[kind].response == "quantile" else 0.25,
            tolerance=0.0,
            dtype=fit.variant,
            progress=False,
        )
    return {
        "falls": audit.violations,
        "pairs": audit.pairs,
        "seconds": time.perf_counter() - started,
        "epochs": 0,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce falls`."""
    parser.add_argument(
        "--pairs", type=positive_count, default=11_000_000, help="at most, of all strict kinds"
    )
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the searches that the table lacks, and say how many pairs fell."""
    path = arguments.output / "falls.csv"
    # Two threads each wait for the other where another process has a core.
    quick = 1_000, ["members", "IGCM"], [1]
    every = fits(*quick) if arguments.quick else fits(arguments.pairs, [*KINDS])
    table = run_fits(path, every, run, arguments)
    print(f"\n{report(table)}\n\nwritten: {path}")


def report(table: pd.DataFrame) -> str:
    """Pairs and falls of every kind, and of those together that promise that there is none."""
    counts = table.pivot_table("value", "dataset", "metric", aggfunc="sum").astype(int)
    rows = [
        [str(name), "no" if name in STRICT else "yes", f"{row['pairs']:,}", f"{row['falls']:,}"]
        for name, row in counts.reindex([*KINDS, FALLING]).dropna().astype(int).iterrows()
    ]
    strict = counts[counts.index.isin(STRICT)].sum()
    return (
        markdown(["Kind", "May fall", "Pairs", "Falls"], rows)
        + f"\n\nOf those that may not fall, {strict['falls']} in {strict['pairs']:,} pairs fell."
    )
