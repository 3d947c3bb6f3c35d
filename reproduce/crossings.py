"""A million pairs that cumulative probabilities and quantiles must keep in order: how many fall.

Models of members and with sampled z, of ordered levels and of whole distributions, in both
floating-point types, as they were trained and as they were saved and loaded. In a pair one revenue,
the threshold or the level of a quantile is raised: by a neighbouring floating-point number, or by
up to three standard deviations. The two are asked for in separate calls, in other orders.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import pyro_gcm
from reproduce.arguments import positive_count
from reproduce.kinds import CURVES, rows, trained
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores, add_run_arguments, as_json, run_fits

DTYPES = {"float32": torch.float32, "float64": torch.float64}
PLACES = ("trained", "loaded")
#: Quantiles of a row take as long as this many probabilities.
_OF_QUANTILES = 60
#: Pairs of one call.
_BLOCK = 8_192

#: x, r, and a threshold or a level [n] to a number [n] that must not fall.
Asked = Callable[[Tensor, Tensor, Tensor], Tensor]


def fits(pairs: int) -> list[Fit]:
    """A search of every kind, type and place."""
    cells = list(itertools.product(CURVES, DTYPES, PLACES))
    settings = as_json({"pairs": math.ceil(pairs / len(cells))})
    return [Fit("crossings", *cell, "pairs", 0, "search", settings) for cell in cells]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Search one model."""
    dtype = DTYPES[fit.variant]
    model: Any = trained(fit.dataset, dtype)
    if fit.protocol == "loaded":
        with tempfile.TemporaryDirectory() as folder:
            model = pyro_gcm.load(pyro_gcm.save(model, Path(folder) / "model"))
    started, count = time.perf_counter(), fit.options["pairs"]
    found = _search(model, CURVES[fit.dataset].response, dtype, count)
    return {**found, "seconds": time.perf_counter() - started, "epochs": 0}


def _search(model: Any, response: str, dtype: torch.dtype, count: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(1)
    ordinal = response == "ordinal"

    def below(x: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return model.predictive(x, r).cdf(t)

    def above(x: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return 1.0 - model.predictive(x, r).cdf(t).double()

    def quantile(x: Tensor, r: Tensor, level: Tensor) -> Tensor:
        return model.predictive(x, r).quantile(level[:1])[:, 0]

    few = math.ceil(count / _OF_QUANTILES)
    searches: dict[str, tuple[Asked, str, int]] = {
        "probability, revenues": (above, "r", math.ceil(count / 2)),
        "probability, thresholds": (below, "threshold", math.ceil(count / 2)),
        "quantile, revenues": (quantile, "r", few),
        "quantile, levels": (quantile, "level", few),
    }
    found = {}
    for name, (asked, moved, pairs) in searches.items():
        falls = seen = 0
        # Levels of quantiles are those of a whole call: a few hundred rows for each.
        size = _BLOCK if asked is not quantile else min(256, max(1, pairs // 8))
        while seen < pairs:
            size = min(size, pairs - seen)
            low, high = _pair(moved, ordinal, asked is quantile, size, dtype, generator)
            order = torch.randperm(size, generator=generator)
            first, second = asked(*low), asked(*(part[order] for part in high))
            falls += int((second < first[order]).sum())
            seen += size
        found[f"{name}, pairs"], found[f"{name}, falls"] = float(seen), float(falls)
    return found


def _pair(
    moved: str, ordinal: bool, levels: bool, size: int, dtype: torch.dtype, g: torch.Generator
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Two sets of rows, of which the second must not have the smaller answers."""
    table = rows("continuous", dtype)
    at = torch.randint(len(table.x), (size,), generator=g)
    x = table.x[at]
    r = table.r[at] + 0.5 * torch.randn(size, 2, generator=g).to(dtype)
    if levels:
        t = torch.rand(1, generator=g).double().expand(size).clamp(0.001, 0.998)
    elif ordinal:
        t = torch.randint(0, 2, (size,), generator=g).to(dtype)
    else:
        t = 2.0 * torch.randn(size, generator=g).to(dtype)
    if moved == "r":
        raised, which = r.clone(), torch.randint(2, (size,), generator=g)
        places = torch.arange(size), which
        raised[places] = _raised(r[places], g)
        return (x, r, t), (x, raised, t)
    if moved == "level":
        step = 1e-3 * torch.rand(1, generator=g).double() * float(torch.rand(1, generator=g) < 0.5)
        return (x, r, t), (x, r, torch.nextafter(t + step, torch.ones_like(t)))
    return (x, r, t), (x, r, t + 1.0 if ordinal else _raised(t, g))


def _raised(values: Tensor, g: torch.Generator) -> Tensor:
    """The next number for half of them, the others by up to 3 over eight powers of ten."""
    size = values.shape
    step = 3.0 * 10.0 ** (-8.0 * torch.rand(size, generator=g))
    step = torch.where(torch.rand(size, generator=g) < 0.5, torch.zeros(()), step)
    top = torch.full_like(values, math.inf)
    return torch.nextafter(values + step.to(values.dtype), top)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce crossings`."""
    parser.add_argument(
        "--pairs", type=positive_count, default=1_000_000, help="of all kinds, of probabilities"
    )
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the searches that the table lacks, and say how many pairs fell."""
    path = arguments.output / "crossings.csv"
    table = run_fits(path, fits(1_600 if arguments.quick else arguments.pairs), run, arguments)
    print(f"\n{report(table)}\n\nwritten: {path}")


def report(table: pd.DataFrame) -> str:
    """Pairs and falls of every kind, by what was raised."""
    counts = table.pivot_table("value", "dataset", "metric", aggfunc="sum").astype(int)
    names = [str(name)[:-7] for name in counts if str(name).endswith(", pairs")]
    lines = [
        [str(kind), *(f"{row[f'{n}, falls']:,} of {row[f'{n}, pairs']:,}" for n in names)]
        for kind, row in counts.reindex(list(CURVES)).dropna().astype(int).iterrows()
    ]
    falls, pairs = (
        int(counts[[f"{name}, {what}" for name in names]].to_numpy().sum())
        for what in ("falls", "pairs")
    )
    return f"{markdown(['Falls', *names], lines)}\n\n{falls} of {pairs:,} pairs fell."
