"""Pairs that must be in order: how many fall, of every kind of model, at a tolerance of 0.

Both floating-point types, the model as it was trained and as it was saved and loaded.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import pyro_gcm
from pyro_gcm._utils.threads import torch_threads
from reproduce.checks.kinds import CURVES, KINDS, loaded, rows, trained
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores, as_json
from reproduce.study import Study

DTYPES = {"float32": torch.float32, "float64": torch.float64}
PLACES = ("trained", "loaded")
#: Pairs of one search of `falls`: eleven million of all kinds together that promise something.
PAIRS = 85_404
#: Kinds that predict so slowly that they get a tenth of them.
SLOW = {"GCM, flow prior": 8_541}
#: Kinds that promise that no prediction falls.
STRICT = [kind for kind in KINDS if not kind.startswith("IGCM")]
#: Not a kind: a model of members whose predictions are rounded up and down by turns.
FALLING = "members, made to fall"
#: Pairs of one search of `crossings`, a million of all kinds; pairs of one call.
CURVE_PAIRS, BLOCK = 62_500, 8_192
#: Quantiles of a row take as long as this many probabilities.
OF_QUANTILES = 60


def _model(kind: str, fit: Fit, device: str) -> Any:
    model = trained(kind, DTYPES[fit.variant], device=device)
    return loaded(model, device=device) if fit.protocol == "loaded" else model


def _searches(fit: Fit, pairs: int) -> list[Fit]:
    """Every type and place."""
    settings = as_json({"pairs": pairs})
    return [
        replace(fit, variant=dtype, protocol=place, settings=settings)
        for dtype, place in itertools.product(DTYPES, PLACES)
    ]


def fall_cells(fit: Fit) -> Iterable[Fit]:
    """The searches of a kind with a number of threads; one of the model that was made to fall."""
    found = _searches(fit, SLOW.get(fit.dataset, PAIRS))
    if fit.dataset == FALLING:
        return found[:1] if fit.split == "1 threads" else []
    return found


def find_falls(fit: Fit, device: str = "cpu") -> Scores:
    """Ten million pairs of revenues of every kind of model: which predictions fall where they rise.

    With one thread of torch and with two. IGCM, which promises nothing, is searched as well and
    counted apart; a model whose predictions were made to fall shows that the search would find it.
    """
    kind = "members" if fit.dataset == FALLING else fit.dataset
    model = _model(kind, fit, device)

    def made_to_fall(x: Any, r: Any) -> Any:
        return model.predict(x, r).numpy() - 0.01 * (r.sum(1) > 0.0)

    x, r, _ = rows(KINDS[kind].response, DTYPES[fit.variant])
    started = time.perf_counter()
    with torch_threads(int(fit.split.split()[0])):
        audit = pyro_gcm.audit_monotonicity(
            made_to_fall if fit.dataset == FALLING else model,
            x,
            r,
            pairs=fit.options["pairs"],
            margin=0.0 if KINDS[kind].response == "quantile" else 0.25,
            tolerance=0.0,
            dtype=fit.variant,
            progress=False,
        )
    found: Scores = {"falls": audit.violations, "pairs": audit.pairs}
    return {**found, "seconds": time.perf_counter() - started, "epochs": 0}


def _counts(table: pd.DataFrame, kinds: Iterable[str]) -> pd.DataFrame:
    counts = table.pivot_table("value", "dataset", "metric", aggfunc="sum")
    return counts.reindex([*kinds]).dropna().astype(int)


def falls_report(table: pd.DataFrame) -> str:
    """Pairs and falls of every kind, and of those together that promise that there is none."""
    counts = _counts(table, [*KINDS, FALLING])
    lines = [
        [str(name), "no" if name in STRICT else "yes", f"{row['pairs']:,}", f"{row['falls']:,}"]
        for name, row in counts.iterrows()
    ]
    strict = counts[counts.index.isin(STRICT)].sum()
    told = f"Of those that may not fall, {strict['falls']} in {strict['pairs']:,} pairs fell."
    return f"{markdown(['Kind', 'May fall', 'Pairs', 'Falls'], lines)}\n\n{told}"


#: x, r, and a threshold or a level [n] to a number [n] that must not fall.
Asked = Callable[[Tensor, Tensor, Tensor], Tensor]


def find_crossings(fit: Fit, device: str = "cpu") -> Scores:
    """A million pairs that cumulative probabilities and quantiles must keep in order: which fall.

    Models of members and with sampled z, of ordered levels and of whole distributions. In a pair
    one revenue, the threshold or the level of a quantile is raised: by a neighbouring
    floating-point number, or by up to three standard deviations. The two are asked for in separate
    calls, in other orders.
    """
    model, dtype = _model(fit.dataset, fit, device), DTYPES[fit.variant]
    started, count = time.perf_counter(), fit.options["pairs"]
    generator = torch.Generator().manual_seed(1 + fit.seed)

    def below(x: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return model.predictive(x, r).cdf(t)

    def above(x: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return 1.0 - model.predictive(x, r).cdf(t).double()

    def quantile(x: Tensor, r: Tensor, level: Tensor) -> Tensor:
        return model.predictive(x, r).quantile(level[:1])[:, 0]

    half, few = math.ceil(count / 2), math.ceil(count / OF_QUANTILES)
    searches: dict[str, tuple[Asked, int]] = {
        "probability, revenues": (above, half),
        "probability, thresholds": (below, half),
        "quantile, revenues": (quantile, few),
        "quantile, levels": (quantile, few),
    }
    found: Scores = {}
    for name, (asked, pairs) in searches.items():
        falls = 0
        # Levels of quantiles are those of a whole call: a few hundred rows for each.
        block = BLOCK if asked is not quantile else min(256, max(1, pairs // 8))
        for seen in range(0, pairs, block):
            size = min(block, pairs - seen)
            ordinal = CURVES[fit.dataset].response == "ordinal"
            low, high = _pair(name, ordinal, size, dtype, generator)
            order = torch.randperm(size, generator=generator)
            first, second = asked(*low), asked(*(part[order] for part in high))
            falls += int((second < first[order]).sum())
        found |= {f"{name}, pairs": pairs, f"{name}, falls": falls}
    return {**found, "seconds": time.perf_counter() - started, "epochs": 0}


def _pair(
    name: str, ordinal: bool, size: int, dtype: torch.dtype, g: torch.Generator
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Two sets of rows, of which the second must not have the smaller answers."""
    table = rows("continuous", dtype)
    at = torch.randint(len(table.x), (size,), generator=g)
    x, r = table.x[at], table.r[at] + 0.5 * torch.randn(size, 2, generator=g).to(dtype)
    if name.startswith("quantile"):
        t = torch.rand(1, generator=g).double().expand(size).clamp(0.001, 0.998)
    elif ordinal:
        t = torch.randint(0, 2, (size,), generator=g).to(dtype)
    else:
        t = 2.0 * torch.randn(size, generator=g).to(dtype)
    if name.endswith("revenues"):
        raised, which = r.clone(), torch.randint(2, (size,), generator=g)
        places = torch.arange(size), which
        raised[places] = _raised(r[places], g)
        return (x, r, t), (x, raised, t)
    if name.endswith("levels"):
        step = 1e-3 * torch.rand(1, generator=g).double() * float(torch.rand(1, generator=g) < 0.5)
        return (x, r, t), (x, r, torch.nextafter(t + step, torch.ones_like(t)))
    return (x, r, t), (x, r, t + 1.0 if ordinal else _raised(t, g))


def _raised(values: Tensor, g: torch.Generator) -> Tensor:
    """The next number for half of them, the others by up to 3 over eight powers of ten."""
    step = 3.0 * 10.0 ** (-8.0 * torch.rand(values.shape, generator=g))
    step = torch.where(torch.rand(values.shape, generator=g) < 0.5, torch.zeros(()), step)
    top = torch.full_like(values, math.inf)
    return torch.nextafter(values + step.to(values.dtype), top)


def crossings_report(table: pd.DataFrame) -> str:
    """Pairs and falls of every kind, by what was raised."""
    counts = _counts(table, CURVES)
    names = [name.removesuffix(", pairs") for name in map(str, counts) if name.endswith(", pairs")]
    lines = [
        [str(kind), *(f"{row[f'{n}, falls']:,} of {row[f'{n}, pairs']:,}" for n in names)]
        for kind, row in counts.iterrows()
    ]
    falls, pairs = (
        counts.filter(regex=f", {what}$").to_numpy().sum() for what in ("falls", "pairs")
    )
    return f"{markdown(['Falls', *names], lines)}\n\n{falls} of {pairs:,} pairs fell."


FALLS = Study(
    *("falls", str(find_falls.__doc__), dict.fromkeys([*KINDS, FALLING], ""), {"audit": None}),
    *(find_falls, falls_report),
    count=2,
    counted="threads",
    splits=lambda count: ((f"{threads + 1} threads", 0) for threads in range(count)),
    cells=fall_cells,
    quick={"pairs": 250},
)
CROSSINGS = Study(
    *("crossings", str(find_crossings.__doc__), dict.fromkeys(CURVES, ""), {"search": None}),
    *(find_crossings, crossings_report),
    count=1,
    counted="seeds",
    splits=lambda count: (("pairs", seed) for seed in range(count)),
    cells=lambda fit: _searches(fit, CURVE_PAIRS),
    quick={"pairs": 100},
)
